//! A comparison as requested by the user, and the resulting study.

use std::path::PathBuf;

use hostftl_core::SECTOR;
use hostftl_layers::LayerKind;
use hostftl_sim::{
    Export, LayerSpec, Load, MOST_SPANS, Pace, Stack, Study, Warm, Whole, default_memory,
};
use hostftl_trace::Source;

use crate::advise::interrupted;
use crate::slice::Slice;
use crate::wrong::Wrong;
use crate::{nearest, units};

/// Default states of a drive.
pub const STATES: &str = "new,fill=70%,steady,self=70%";
/// Default drive.
const DRIVE: &str = "hatl-2g";

/// A requested comparison. The default is that of a command line without options.
#[derive(Clone, Debug)]
pub struct Question {
    /// Traces and synthetic workloads, as parsed by [`source`].
    pub workloads: Vec<String>,
    /// Whether invalid lines of traces are counted and skipped.
    pub skip_bad: bool,
    /// Drive models and stacks, as parsed by [`stack`].
    pub drives: Vec<String>,
    /// Layers; by default those that support the drives.
    pub layers: Option<Vec<LayerSpec>>,
    /// States of the drives before the workload.
    pub warm: Vec<Warm>,
    /// Exported capacity of every row.
    pub export: Export,
    /// Folder for preconditioned stacks.
    pub cache: Option<PathBuf>,
    /// Queue depth of a closed loop, which replaces the workload's own times.
    pub closed_loop: Option<u32>,
    /// Share of the exported capacity that is data of the workload, in thousandths: each drive is
    /// replaced by a slice of it. `None` takes the drives as they are.
    pub hot: Option<u16>,
    /// Capacity of the whole drives in bytes, if it is not that of the models.
    pub scale_to: Option<u64>,
    /// Whether the workload's addresses are packed.
    pub compact: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Maximum number of rows in progress; by default the number of cores.
    pub threads: Option<u16>,
    /// Memory limit in bytes for all rows in progress; by default three quarters of the available
    /// memory.
    pub memory: Option<u64>,
}

impl Default for Question {
    fn default() -> Self {
        Question {
            workloads: Vec::new(),
            skip_bad: false,
            drives: vec![DRIVE.to_owned()],
            layers: None,
            warm: STATES
                .split(',')
                .map(|text| text.parse().expect("the text is a state"))
                .collect(),
            export: Export::Usual,
            cache: None,
            closed_loop: None,
            hot: None,
            scale_to: None,
            compact: false,
            seed: 1,
            threads: None,
            memory: None,
        }
    }
}

impl Question {
    /// Returns the study. For the size of a slice the workload is read, until `cancelled` returns
    /// true.
    ///
    /// # Errors
    /// If the options of a workload are invalid, a drive is unknown, or the reading was cancelled.
    pub fn study(&self, cancelled: &dyn Fn() -> bool) -> Result<Study, Wrong> {
        let load = |text: &String| -> Result<Load, Wrong> {
            Ok(Load { name: text.clone(), source: source(text, self.skip_bad)? })
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workloads = self.workloads.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let is_file = |load: &Load| matches!(load.source.plain(), Source::File(_));
        let compact = self.compact || (self.hot.is_some() && workloads.iter().all(is_file));
        let drives = self.drives.iter().map(|name| match self.hot {
            Some(hot) => self.slice(name, &workloads, (hot, compact), cancelled),
            None => self.whole(name),
        });
        let drives = drives.collect::<Result<Vec<_>, _>>()?;
        Ok(Study {
            workloads,
            layers: self.layers.clone().unwrap_or_else(|| usual(&drives)),
            drives,
            warm: self.warm.clone(),
            export: self.export,
            cache: self.cache.clone(),
            pace: self.closed_loop.map_or(Pace::Trace, Pace::Closed),
            most_spans: MOST_SPANS,
            compact,
            seed: self.seed,
            threads: self.threads.map_or(cores, usize::from),
            memory: self.memory.unwrap_or_else(default_memory),
        })
    }

    /// Returns the stack `name`. If its only device stands for a drive of another capacity, it is a
    /// slice of that.
    fn whole(&self, name: &str) -> Result<Stack, Wrong> {
        let mut stack = stack(name)?;
        if let (Some(bytes), [_]) = (self.scale_to, &stack.devices[..]) {
            let options = vec![("drive", name.to_owned()), ("scale-to", bytes.to_string())];
            stack.whole = Some(Whole { sectors: bytes / SECTOR as u64, options });
        }
        Ok(stack)
    }

    /// Returns the slice of the drive `name` of which the only workload's data is the share `hot`.
    fn slice(
        &self,
        name: &str,
        loads: &[Load],
        (hot, compact): (u16, bool),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Stack, Wrong> {
        let [load] = loads else {
            return Err(Wrong::usage("--hot takes one workload, because each has its own slice"));
        };
        let extent = load.extent(self.seed, compact, cancelled)?.ok_or_else(interrupted)?;
        let footprint = extent.sectors.max(1) * SECTOR as u64;
        Ok(Slice::new(name, footprint, f64::from(hot) / 1000.0, self.export, self.scale_to)?.1)
    }
}

/// Parses a workload; `skip_bad` counts invalid lines instead of failing.
///
/// # Errors
/// If its options are invalid, or a file that defines workloads can't be used.
pub fn source(text: &str, skip_bad: bool) -> Result<Source, Wrong> {
    let mut source: Source = text.parse()?;
    if let Source::File(file) = source.plain_mut() {
        file.skip_bad |= skip_bad;
    }
    Ok(source)
}

/// Returns the kind of layer with the name `name`.
///
/// # Errors
/// If it is unknown, with the nearest name.
pub fn layer_kind(name: &str) -> Result<LayerKind, String> {
    name.parse().map_err(|()| {
        let names: Vec<&str> =
            ["none"].into_iter().chain(LayerKind::ALL.iter().map(|kind| kind.name())).collect();
        nearest::unknown("layer", name, &names)
    })
}

/// Parses a layer with its parameters, including `raid5`.
///
/// # Errors
/// The reason and the accepted form, as text for the user.
pub fn layer(text: &str) -> Result<LayerSpec, String> {
    match text.split(':').next().unwrap_or_default() {
        "raid5" => {}
        name => drop(layer_kind(name)?),
    }
    LayerSpec::parse(text)
}

/// Parses an exported capacity: a size, or a percentage.
///
/// # Errors
/// The accepted form.
pub fn export(text: &str) -> Result<Export, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return units::parse_blocks(text).map(Export::Bytes);
    };
    let percent = percent.parse::<f64>().ok().filter(|it| (1.0..=100.0).contains(it));
    let wrong =
        || format!("`{text}` is not a share; write a percentage from 1% to 100%, as in 80%");
    percent.map(|it| Export::Share((it * 10.0).round() as u32)).ok_or_else(wrong)
}

/// Parses a stack of drive models: built-in ones, or files.
///
/// # Errors
/// If a drive is unknown, or its file can't be used.
pub fn stack(text: &str) -> Result<Stack, Wrong> {
    Ok(Stack::find(text)?)
}

/// Returns the default layers of `stacks`: those in their files, or a choice by the number of
/// devices.
fn usual(stacks: &[Stack]) -> Vec<LayerSpec> {
    let mut layers: Vec<LayerSpec> = Vec::new();
    for stack in stacks {
        let suits: &[&str] = match stack.devices.len() {
            1 => &["none", "hard"],
            2 if stack.devices[0] != stack.devices[1] => &["tier"],
            2 => &["log:parity=yes"],
            _ => &["raid5", "log:parity=yes"],
        };
        let suits = suits.iter().map(|text| LayerSpec::parse(text).expect("a built-in entry"));
        let all = if stack.layers.is_empty() { suits.collect() } else { stack.layers.clone() };
        for layer in all {
            if !layers.iter().any(|known| known.name == layer.name) {
                layers.push(layer);
            }
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_options_have_defaults() {
        let question = Question {
            workloads: vec!["synth:uniform:size=4k,span=1m,count=9".into()],
            ..Question::default()
        };
        let study = question.study(&|| false).expect("it makes sense");
        let layers: Vec<&str> = study.layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!((layers, study.rows()), (vec!["passthrough", "hard"], 8));
        assert_eq!(study.drives[0].name, DRIVE);
    }

    #[test]
    fn errors_name_the_wrong_option() {
        let wrong =
            Question { drives: vec!["hatl-2h".into()], ..Question::default() }.study(&|| false);
        let wrong = wrong.expect_err("there is no such drive");
        assert_eq!(wrong.kind, crate::WrongKind::Usage);
        assert!(wrong.text.contains("did you mean `hatl-2g`?"), "{wrong}");
        assert!(layer("hrad").unwrap_err().contains("did you mean `hard`?"));
        assert!(export("0%").is_err() && export("80%") == Ok(Export::Share(800)));
    }

    #[test]
    fn hot_data_makes_a_slice_for_one_workload() {
        let load = "synth:uniform:size=4k,span=64m,count=9999".to_owned();
        let one = Question {
            workloads: vec![load.clone()],
            drives: vec!["qlc-64k".into()],
            hot: Some(500),
            ..Question::default()
        };
        let study = one.study(&|| false).expect("a slice");
        let stack = &study.drives[0];
        let whole = stack.whole.as_ref().expect("a slice of a drive");
        let options = [("drive", "qlc-64k".to_owned()), ("hot", "50%".to_owned())];
        assert_eq!((whole.sectors, &whole.options[..]), (1 << 26, &options[..]));
        let layer = LayerSpec::parse("shatl").expect("a layer").sliced(stack).words(stack);
        // 128 MiB of the whole drive.
        let hidden = (f64::from(128 << 20) / stack.factor()) as u64 / SECTOR as u64 * SECTOR as u64;
        assert!(layer.contains(&("hidden", hostftl_layers::size_text(hidden))), "{layer:?}");
        let exported = study.export.sectors(stack, 0) * SECTOR as u64;
        assert!((exported as f64 / f64::from(128 << 20) - 1.0).abs() < 0.01, "{exported}");
        let two = Question { workloads: vec![load.clone(), load], ..one };
        assert!(
            two.study(&|| false)
                .is_err_and(|wrong| wrong.text.contains("--hot takes one workload"))
        );
    }
}
