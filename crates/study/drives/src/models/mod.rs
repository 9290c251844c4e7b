//! Commercial drives, with the figures of their data sheets and the model of each.
//!
//! The models are data, in `stacks/models.toml`. A model has the keys of a drive's file and is read
//! by the same reader, so `--drive NAME:capacity=4g` works as for any other drive. Each value is
//! published, with its source, or assumed, with a reason, or calibrated with counters.
//!
//! A model is a slice of the real drive with all of its dies. [`DriveSpec::nominal`] has the real
//! capacity.
//!
//! [`DriveSpec::nominal`]: crate::DriveSpec::nominal

mod file;
mod measure;
mod rates;

use std::sync::LazyLock;

use hostftl_core::Size;

pub use measure::{MeasureError, Measured};
pub use rates::{Figure, Rate};

/// Relative difference from the data sheet up to which a model meets a figure.
const TOLERANCE: f64 = 0.1;
/// Days of the five years for which makers state drive writes per day.
const DAYS: f64 = 5.0 * 365.25;
/// Capacity of a slice if the user gives none.
const SLICE: &str = "32g";

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The maker or a report on the drive states it.
    Published(String),
    /// It is an assumption, for this reason.
    Assumed(String),
    /// It was fitted to the counters of a drive, from this source.
    Calibrated(String),
}

impl Origin {
    /// Returns the word for this kind of source.
    pub fn word(&self) -> &'static str {
        match self {
            Origin::Published(_) => "published",
            Origin::Assumed(_) => "assumed",
            Origin::Calibrated(_) => "calibrated",
        }
    }

    /// Returns the source, or the reason.
    pub fn text(&self) -> &str {
        match self {
            Origin::Published(text) | Origin::Assumed(text) | Origin::Calibrated(text) => text,
        }
    }
}

/// A value of a model and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Key in the drive's file or in the data sheet.
    pub key: String,
    /// Value as TOML.
    pub value: toml::Value,
    /// Source of the value.
    pub origin: Origin,
}

impl Setting {
    /// Returns the value as a word.
    pub fn word(&self) -> String {
        match &self.value {
            toml::Value::String(word) => word.clone(),
            other => other.to_string(),
        }
    }

    fn number(&self) -> Option<f64> {
        self.value.as_float().or_else(|| self.value.as_integer().map(|it| it as f64))
    }
}

/// A figure of a data sheet beside that of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Which figure it is.
    pub figure: Figure,
    /// Value in the data sheet.
    pub stated: f64,
    /// Value of the model; `None` if it has none.
    pub model: Option<f64>,
    /// Source of the value in the data sheet.
    pub origin: Origin,
}

impl Compared {
    /// Returns the relative difference of the model from the data sheet.
    pub fn difference(&self) -> Option<f64> {
        Some(self.model? / self.stated - 1.0)
    }

    /// Returns whether the model is near enough to the data sheet; `None` if it has no such figure.
    pub fn is_met(&self) -> Option<bool> {
        Some(self.difference()?.abs() <= TOLERANCE)
    }
}

/// A commercial drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    name: String,
    about: String,
    use_when: String,
    sheet: Vec<Setting>,
    drive: Vec<Setting>,
    /// Rates that the model does not meet, with the reason.
    misses: Vec<(Rate, String)>,
}

static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
    file::read(include_str!("../../../../../stacks/models.toml"))
        .unwrap_or_else(|why| panic!("stacks/models.toml: {why}"))
});

impl Model {
    /// Returns all models, in the order of their file.
    pub fn all() -> &'static [Model] {
        &MODELS
    }

    /// Returns the model with this name.
    pub fn find(name: &str) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// Returns its name, as for `--drive`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns one sentence about the drive.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns the figures of the data sheet.
    pub fn sheet(&self) -> &[Setting] {
        &self.sheet
    }

    /// Returns the keys of the drive's file.
    pub fn drive(&self) -> &[Setting] {
        &self.drive
    }

    /// Returns the capacity of the real drive as its maker writes it.
    pub fn capacity(&self) -> String {
        self.stated("capacity").map(Setting::word).expect("the reader checks it")
    }

    /// Returns the capacity of the real drive in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        Size::parse(&self.capacity()).expect("the reader checks it").bytes()
    }

    /// Returns a figure of the data sheet, or `None` if it states none.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        self.stated(figure.key()).and_then(Setting::number)
    }

    fn stated(&self, key: &str) -> Option<&Setting> {
        self.sheet.iter().find(|it| it.key == key)
    }

    /// Returns the 10^12 bytes that the host may write: as rated, or from the drive writes per day
    /// over five years.
    pub fn tbw(&self) -> Option<f64> {
        let of_days = |dwpd: f64| dwpd * self.tb_per_dwpd();
        self.figure(Figure::Tbw).or_else(|| self.figure(Figure::Dwpd).map(of_days))
    }

    /// Returns the 10^12 bytes of one drive write per day over five years.
    fn tb_per_dwpd(&self) -> f64 {
        DAYS * self.capacity_bytes() as f64 / 1e12
    }

    /// Returns each figure of the data sheet beside that of the model.
    pub fn compare(&self, measured: &Measured) -> Vec<Compared> {
        let compared = |figure: Figure| {
            let setting = self.stated(figure.key())?;
            let (stated, has) = (setting.number()?, measured.figure(figure));
            Some(Compared { figure, stated, model: has, origin: setting.origin.clone() })
        };
        Figure::ALL.into_iter().filter_map(compared).collect()
    }

    /// Returns the reason why the model does not meet a rate, or `None` if it meets it.
    pub fn miss(&self, rate: Rate) -> Option<&str> {
        self.misses.iter().find(|(of, _)| *of == rate).map(|(_, why)| why.as_str())
    }

    /// Returns the drive's file.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("# {}\n# Use when {}\n", self.about, self.use_when);
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            text += &format!("{key} = {value}\n");
        };
        for Setting { key, value, .. } in &self.drive {
            line(key, value);
        }
        line("nominal", &toml::Value::from(self.capacity()));
        line("capacity", &toml::Value::from(SLICE));
        text
    }
}
