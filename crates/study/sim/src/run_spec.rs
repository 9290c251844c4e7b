//! A combination of a study: its position in the results, its inputs, and the command that runs it
//! alone.

use std::fmt::Write as _;

use hostftl_core::SECTOR;
use hostftl_drives::DeviceSpec;
use hostftl_layers::Plan;
use hostftl_trace::{Source, TraceFile};

use crate::error::StudyError;
use crate::export::Export;
use crate::layer_spec::LayerSpec;
use crate::load::{Load, Loaded};
use crate::outcome::{Hole, Why};
use crate::planned_run::PlannedRun;
use crate::player::Pace;
use crate::stack::Stack;
use crate::state::Warm;
use crate::study::Study;
use crate::unused::usage;

/// One combination of a study.
#[derive(Clone, Copy)]
pub(crate) struct RunSpec<'a> {
    pub study: &'a Study,
    pub workload: &'a Load,
    pub load: &'a Loaded,
    pub stack: &'a Stack,
    pub warm: Warm,
    pub layer: &'a LayerSpec,
}

/// Returns all combinations of `study` in order. `loads` are its workloads after reading.
pub(crate) fn all<'a>(study: &'a Study, loads: &[&'a Loaded]) -> Vec<RunSpec<'a>> {
    let mut specs = Vec::with_capacity(study.rows());
    for (workload, load) in study.workloads.iter().zip(loads.iter().copied()) {
        for stack in &study.drives {
            for &warm in &study.warm {
                let layers = study.layers.iter();
                specs.extend(layers.map(|layer| RunSpec {
                    study,
                    workload,
                    load,
                    stack,
                    warm,
                    layer,
                }));
            }
        }
    }
    specs
}

impl<'a> RunSpec<'a> {
    /// Plans row `index`.
    ///
    /// # Errors
    /// The reason why the row can't run with `memory` bytes.
    pub(crate) fn planned(&self, index: usize, memory: u64) -> Result<PlannedRun<'a>, StudyError> {
        let RunSpec { study, stack, layer, .. } = *self;
        self.checked()?;
        let plan = plan(&self.suited(), stack)?;
        let exported = study.export.sectors(stack, plan.limits.exported);
        if plan.limits.exported < exported {
            let bytes = |sectors: u64| sectors * SECTOR as u64;
            return Err(StudyError::Exports {
                layer: layer.name.clone(),
                drive: stack.name.clone(),
                most: bytes(plan.limits.exported) >> 20,
                wanted: bytes(exported).div_ceil(1 << 20),
            });
        }
        self.fits(exported)?;
        let planned = PlannedRun { spec: *self, index, plan, exported };
        match planned.memory() {
            needed if needed > memory => Err(planned.too_large(needed, memory)),
            _ => Ok(planned),
        }
    }

    /// Refuses parameters that can never have an effect.
    fn checked(&self) -> Result<(), StudyError> {
        let RunSpec { study, stack, layer, load, .. } = *self;
        let notes = layer.notes(stack, usage(study.export, stack, &[load]));
        notes.map(drop).map_err(|why| StudyError::Plan {
            layer: layer.name.clone(),
            drive: stack.name.clone(),
            why,
        })
    }

    /// Returns the layer with its parameters chosen for this workload.
    pub(crate) fn suited(&self) -> LayerSpec {
        let RunSpec { study, stack, .. } = *self;
        let exported = match study.export {
            Export::Most => None,
            export => Some(export.sectors(stack, 0)),
        };
        let suited = self.layer.suited(self.load.grain.sectors(), stack.map_unit());
        suited.spared(&stack.infos(), stack.map_unit(), exported).sliced(stack)
    }

    /// Refuses a workload that reaches beyond the exported capacity.
    fn fits(&self, exported: u64) -> Result<(), StudyError> {
        let RunSpec { study, load, .. } = *self;
        let (workload, drive) = (self.workload.name.clone(), self.stack.name.clone());
        let mib = |sectors: u64| (sectors * SECTOR as u64) >> 20;
        if load.last_dev > 0 && !study.compact {
            return Err(StudyError::Devices { workload });
        }
        if load.end <= exported {
            return Ok(());
        }
        let end = load.end;
        Err(if study.compact {
            StudyError::TooLarge { workload, needed: mib(end), drive, mib: mib(exported) }
        } else {
            StudyError::Beyond { workload, end, drive, exported, mib: mib(exported) }
        })
    }

    /// Returns a hole behind `after` rows.
    pub(crate) fn hole(&self, after: usize, index: usize, why: Why) -> Hole {
        Hole {
            index,
            after,
            workload: self.workload.name.clone(),
            drive: self.stack.name.clone(),
            warm: self.warm.to_string(),
            layer: self.layer.name.clone(),
            seed: self.study.seed,
            parameters: self.parameters(),
            command: self.command(),
            why,
        }
    }

    /// Returns a text with everything that determines the row. Equal texts and equal programs yield
    /// equal rows.
    pub(crate) fn about(&self) -> String {
        let RunSpec { study, load, stack, warm, layer, .. } = *self;
        let suited = self.suited();
        let names = (&self.workload.name, &stack.name, &layer.name);
        let (drives, made) = (layer.devices(stack), suited.about(stack));
        let Study { export, pace, most_spans, compact, seed, .. } = study;
        let source = format!("{:?}", self.workload.source);
        let digest = load.digest_with_times();
        format!(
            "{names:?}\n{source}\n{digest:016x}\n{drives:?}\n{made}\n{warm} {export:?} \
             {pace:?} {most_spans} {compact} {seed}"
        )
    }

    /// Returns the shell command that runs this combination alone.
    pub(crate) fn command(&self) -> String {
        let RunSpec { study, stack, warm, layer, .. } = *self;
        let mut text = ["hostftl", "compare", &self.workload.name].map(quoted).join(" ");
        let mut option = |name: &str, value: &str| {
            let _ = write!(text, " --{name} {}", quoted(value));
        };
        match stack.whole.as_ref().filter(|whole| !whole.options.is_empty()) {
            None => option("drive", &stack.name),
            Some(whole) => whole.options.iter().for_each(|(name, value)| option(name, value)),
        }
        option("layers", &layer.name);
        option("warm", &warm.to_string());
        match study.export {
            Export::Usual | Export::Most => {}
            Export::Bytes(bytes) => option("export", &bytes.to_string()),
            Export::Share(permille) => {
                option("export", &format!("{}%", f64::from(permille) / 10.0))
            }
        }
        if let Pace::Closed(depth) = study.pace {
            option("closed-loop", &depth.to_string());
        }
        option("seed", &study.seed.to_string());
        if study.compact {
            text += " --compact";
        }
        if matches!(self.workload.source.plain(), Source::File(file) if file.skip_bad) {
            text += " --skip-bad";
        }
        text
    }

    /// Returns all parameters with their values, by name: `workload_…`, `drive_…`, `layer_…` and
    /// `study_…`. Values of different devices are joined by `+`.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut add = |of: &str, key: &str, value: String| {
            all.push((format!("{of}_{}", key.replace('-', "_")), value));
        };
        for (key, value) in workload_words(&self.workload.name, &self.workload.source) {
            add("workload", &key, value);
        }
        for (key, value) in words_of_devices(&self.stack.devices) {
            add("drive", &key, value);
        }
        for (key, value) in self.suited().words(self.stack) {
            add("layer", key, value);
        }
        let Study { export, pace, compact, .. } = self.study;
        add("study", "export", export.word(self.stack));
        let depth = if let Pace::Closed(depth) = pace { depth.to_string() } else { String::new() };
        add("study", "closed_loop", depth);
        add("study", "compact", if *compact { "yes" } else { "no" }.to_owned());
        all.sort();
        all
    }
}

/// Plans a layer on `stack`.
fn plan(layer: &LayerSpec, stack: &Stack) -> Result<Plan, StudyError> {
    layer.plan(&stack.infos(), stack.map_unit()).map_err(|why| StudyError::Plan {
        layer: layer.name.clone(),
        drive: stack.name.clone(),
        why: match stack.factor() {
            1.0 => why.to_string(),
            factor => format!("on a slice of 1/{factor:.0} of the drive, {why}"),
        },
    })
}

/// Quotes `word` for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    if word.chars().all(plain) && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Returns the kind and the options of a workload's text.
fn workload_words(text: &str, source: &Source) -> Vec<(String, String)> {
    let pair = |word: &str| {
        let (key, value) = word.split_once('=').unwrap_or((word, "yes"));
        (key.to_owned(), value.to_owned())
    };
    let kind = |kind: &str| ("kind".to_owned(), kind.to_owned());
    let (kind, options) = match source {
        Source::File(_) => {
            let options = TraceFile::options(TraceFile::options_text(text));
            let options = options.iter().map(|option| pair(option));
            return [kind("trace")].into_iter().chain(options).collect();
        }
        Source::Told(_) => {
            let options = text.to_ascii_lowercase().find(".xml:").map(|at| &text[at + 5..]);
            (kind("mqsim"), options.unwrap_or_default())
        }
        Source::Mixture(_) => {
            let parts = text.strip_prefix("synth:").unwrap_or(text);
            return vec![kind("mixture"), ("parts".to_owned(), parts.to_owned())];
        }
        _ => {
            let text = text.strip_prefix("synth:").unwrap_or(text);
            let (pattern, options) = text.split_once(':').unwrap_or((text, ""));
            (kind(pattern), options)
        }
    };
    let options = options.split(',').filter(|word| !word.is_empty()).map(|word| {
        match (source, word.contains('=')) {
            // The first word names the volume that the workload imitates.
            (Source::Like(_), false) => ("volume".to_owned(), word.to_owned()),
            (Source::KvCache(_), false) => ("file".to_owned(), word.to_owned()),
            _ => pair(word),
        }
    });
    [kind].into_iter().chain(options).collect()
}

/// Returns the parameters of all devices, each key once.
fn words_of_devices(devices: &[DeviceSpec]) -> Vec<(String, String)> {
    let texts: Vec<_> = devices.iter().map(DeviceSpec::parameters).collect();
    let mut keys: Vec<&String> = texts.iter().flatten().map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    let word = |text: &[(String, String)], key: &str| {
        let found = text.iter().find(|(known, _)| known == key);
        found.map_or(String::new(), |(_, word)| word.clone())
    };
    let joined = |key: &String| {
        let words: Vec<String> = texts.iter().map(|text| word(text, key)).collect();
        let alike = words.iter().all(|word| *word == words[0]);
        (key.clone(), if alike { words[0].clone() } else { words.join("+") })
    };
    let devices = [("devices".to_owned(), devices.len().to_string())];
    keys.into_iter().map(joined).chain(devices).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let all = ["a.csv:dev=0", "", "two words", "it's", "4*tlc"].map(quoted);
        assert_eq!(all, ["a.csv:dev=0", "''", "'two words'", "'it'\\''s'", "'4*tlc'"]);
    }

    #[test]
    fn a_workload_has_its_options_as_parameters() {
        let words = |text: &str| {
            let source = text.parse::<Source>().expect("a workload");
            let words = workload_words(text, &source);
            words.iter().map(|(key, it)| format!("{key}={it}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("synth:zipf:size=4k,theta=0.9"), "kind=zipf size=4k theta=0.9");
        assert_eq!(words("synth:like:w66,scale=0.01"), "kind=like volume=w66 scale=0.01");
        assert_eq!(words("a:b.csv:format=msr,skip-bad"), "kind=trace format=msr skip-bad=yes");
        assert_eq!(words("plain.csv"), "kind=trace");
        assert_eq!(words("synth:uniform:span=1g+mix"), "kind=mixture parts=uniform:span=1g+mix");
        let kvcache = words("kvcache:a.jsonl,token=1k,capacity=1m");
        assert_eq!(kvcache, "kind=kvcache file=a.jsonl token=1k capacity=1m");
    }

    #[test]
    fn devices_that_differ_show_each() {
        let stack = Stack::find("2*tlc:capacity=2g").expect("a stack");
        let all = words_of_devices(&stack.devices);
        let word = |all: &[(String, String)], key: &str| {
            all.iter().find(|(known, _)| known == key).map(|(_, word)| word.clone())
        };
        assert_eq!(word(&all, "capacity").as_deref(), Some("2g"));
        assert_eq!(word(&all, "devices").as_deref(), Some("2"));
        let stack = Stack::find("slc-1g+tlc:capacity=2g").expect("a stack");
        let all = words_of_devices(&stack.devices);
        assert_eq!(word(&all, "cell").as_deref(), Some("slc+tlc"));
    }
}
