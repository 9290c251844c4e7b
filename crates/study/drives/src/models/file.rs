//! The file of all models: series of drives, each with a common part and its capacities.

use std::collections::BTreeMap;

use hostftl_core::Size;
use serde::Deserialize;

use super::{Figure, Model, Origin, Rate, Setting};

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Sources by the name that entries use for them.
    sources: BTreeMap<String, String>,
    series: Vec<Series>,
}

/// Drives of one data sheet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    name: String,
    about: String,
    use_when: String,
    #[serde(default)]
    sheet: BTreeMap<String, Entry>,
    #[serde(default)]
    drive: BTreeMap<String, Entry>,
    #[serde(default)]
    misses: BTreeMap<String, String>,
    models: Vec<Class>,
}

/// A capacity of a series. Its entries replace those of the series.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Class {
    name: String,
    #[serde(default)]
    sheet: BTreeMap<String, Entry>,
    #[serde(default)]
    drive: BTreeMap<String, Entry>,
    #[serde(default)]
    misses: BTreeMap<String, String>,
}

/// A value with a source, a reason, or the source of the counters to which it was fitted.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    value: toml::Value,
    source: Option<String>,
    reason: Option<String>,
    calibrated: Option<String>,
}

/// Reads the file.
pub(super) fn read(text: &str) -> Result<Vec<Model>, String> {
    let File { sources, series } = toml::from_str(text).map_err(|why| why.to_string())?;
    let mut models = Vec::new();
    for series in &series {
        for class in &series.models {
            let name = format!("{}-{}", series.name, class.name);
            let model = model(&sources, series, class, &name);
            models.push(model.map_err(|why| format!("{name}: {why}"))?);
        }
    }
    Ok(models)
}

fn model(
    sources: &BTreeMap<String, String>,
    series: &Series,
    class: &Class,
    name: &str,
) -> Result<Model, String> {
    let settings = |common: &BTreeMap<String, Entry>, own: &BTreeMap<String, Entry>| {
        let mut all = common.clone();
        all.extend(own.clone());
        let settings = all.into_iter().map(|(key, entry)| setting(sources, key, entry));
        settings.collect::<Result<Vec<_>, _>>()
    };
    let sheet = settings(&series.sheet, &class.sheet)?;
    let capacity =
        sheet.iter().find(|it| it.key == "capacity").ok_or("the sheet has no capacity")?;
    Size::parse(&capacity.word()).ok_or("the capacity is not a size")?;
    let known = |key: &str| key == "capacity" || Figure::ALL.iter().any(|it| it.key() == key);
    if let Some(it) = sheet.iter().find(|it| !known(&it.key)) {
        return Err(format!("a data sheet has no figure '{}'", it.key));
    }
    let mut misses = series.misses.clone();
    misses.extend(class.misses.clone());
    let missed = |(key, why): (String, String)| {
        let rate = Rate::ALL.into_iter().find(|rate| rate.key() == key);
        rate.map(|rate| (rate, why)).ok_or(format!("no rate '{key}'"))
    };
    Ok(Model {
        name: name.to_owned(),
        about: series.about.clone(),
        use_when: series.use_when.clone(),
        sheet,
        drive: settings(&series.drive, &class.drive)?,
        misses: misses.into_iter().map(missed).collect::<Result<_, _>>()?,
    })
}

fn setting(
    sources: &BTreeMap<String, String>,
    key: String,
    Entry { value, source, reason, calibrated }: Entry,
) -> Result<Setting, String> {
    let named =
        |name: String| sources.get(&name).cloned().ok_or(format!("{key}: no source '{name}'"));
    let origin = match (source, reason, calibrated) {
        (Some(source), None, None) => Origin::Published(named(source)?),
        (None, Some(reason), None) => Origin::Assumed(reason),
        (None, None, Some(counters)) => Origin::Calibrated(named(counters)?),
        _ => return Err(format!("{key} needs either a source, a reason or counters")),
    };
    Ok(Setting { key, value, origin })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        sources.brief = "A product brief"
        [[series]]
        name = "maker-x1"
        about = "A drive."
        use_when = "one is needed."
        drive.cell = { value = "tlc", source = "brief" }
        [[series.models]]
        name = "1t"
        sheet.capacity = { value = "1TB", source = "brief" }
        drive.ways = { value = 4, reason = "a guess" }
    "#;

    #[test]
    fn a_model_has_the_entries_of_its_series_and_its_own() {
        let models = read(GOOD).expect("it is complete");
        assert_eq!(models[0].name, "maker-x1-1t");
        assert_eq!(models[0].capacity_bytes(), 1_000_000_000_000);
        let keys: Vec<&str> = models[0].drive.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["cell", "ways"]);
        assert_eq!(models[0].drive[0].origin, Origin::Published("A product brief".into()));
    }

    #[test]
    fn errors_name_the_wrong_entry() {
        let why = |from: &str, to: &str| read(&GOOD.replace(from, to)).unwrap_err();
        assert!(why("reason = \"a guess\"", "source = \"rumour\"").contains("no source 'rumour'"));
        assert!(why(", reason = \"a guess\"", "").contains("ways needs either"));
        assert!(why("1TB", "much").contains("not a size"));
        assert!(why("sheet.capacity", "sheet.colour").contains("no capacity"));
    }
}
