//! The plan of a sweep, from a TOML file or from Python.

use std::path::{Path, PathBuf};

use hostftl_sim::{Export, Pace, Study, Variants, Warm};
use serde::Deserialize;

use crate::question::{self, Question};
use crate::wrong::Wrong;

/// Maximum number of seeds of a plan.
const MOST_SEEDS: u64 = 100_000;

/// One value or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Some_<T> {
    One(T),
    Several(Vec<T>),
}

impl<T> Some_<T> {
    fn all(self) -> Vec<T> {
        match self {
            Some_::One(one) => vec![one],
            Some_::Several(all) => all,
        }
    }
}

/// A plan. Each text may contain braces, as in `log:gc={greedy,fifo}`, which expand to one text for
/// each alternative.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SweepPlan {
    traces: Some_<String>,
    drives: Option<Some_<String>>,
    layers: Option<Some_<String>>,
    warm: Option<Some_<String>>,
    export: Option<Some_<String>>,
    closed_loop: Option<Some_<u32>>,
    /// The share of the export that is data of the only trace, as in "20%".
    hot: Option<String>,
    /// The number of seeds, counted from 1, or a list of seeds.
    seeds: Option<Some_<u64>>,
    #[serde(default)]
    compact: bool,
    #[serde(default)]
    skip_bad: bool,
}

/// Resources of a machine for the cells of a plan. They do not affect the results.
#[derive(Clone, Debug, Default)]
pub struct Means {
    /// Maximum number of cells in progress; by default the number of cores.
    pub threads: Option<u16>,
    /// Memory limit in bytes for all cells in progress.
    pub memory: Option<u64>,
    /// Folder for preconditioned stacks.
    pub cache: Option<PathBuf>,
}

impl SweepPlan {
    /// Reads the plan in the file `path`.
    ///
    /// # Errors
    /// The invalid line and the reason.
    pub fn load(path: &Path) -> Result<Self, Wrong> {
        let name = path.display();
        let text = hostftl_core::files::read_text(path)
            .map_err(|why| Wrong::failed(format!("cannot read the plan {name}: {why}")))?;
        Self::parse(&text, &name.to_string())
    }

    /// Parses a plan; `name` is its name in messages.
    ///
    /// # Errors
    /// The invalid line and the reason.
    pub fn parse(text: &str, name: &str) -> Result<Self, Wrong> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            Wrong::usage(format!("{name}:{line}: {}", error.message().replace('\n', " ")))
        })
    }

    /// Replaces the seeds by 1 to `seeds`, if given.
    #[must_use]
    pub fn with_seeds(self, seeds: Option<u64>) -> Self {
        SweepPlan { seeds: seeds.map(Some_::One).or(self.seeds), ..self }
    }

    /// Returns the study and its variants.
    ///
    /// # Errors
    /// The invalid part of the plan, or an interruption while a workload was read for a slice.
    pub fn study(
        self,
        means: &Means,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Study, Variants), Wrong> {
        let some = |texts: Option<Some_<String>>| -> Result<Option<Vec<String>>, Wrong> {
            texts.map(|texts| expand_braces(texts.all())).transpose()
        };
        let usage = |text: String| Wrong::usage(text);
        let layer = |text: &String| question::layer(text);
        let layers = some(self.layers)?.map(|texts| texts.iter().map(layer).collect());
        let mut question = Question {
            workloads: expand_braces(self.traces.all())?,
            skip_bad: self.skip_bad,
            layers: layers.transpose().map_err(usage)?,
            cache: means.cache.clone(),
            hot: self.hot.as_deref().map(crate::hot).transpose().map_err(usage)?,
            compact: self.compact,
            threads: means.threads,
            memory: means.memory,
            ..Question::default()
        };
        if let Some(drives) = some(self.drives)? {
            question.drives = drives;
        }
        if let Some(states) = some(self.warm)? {
            let states = states.iter().map(|text| text.parse::<Warm>());
            question.warm = states.collect::<Result<_, _>>().map_err(Wrong::usage)?;
        }
        let exports = some(self.export)?.map(|texts| {
            texts.iter().map(|text| question::export(text)).collect::<Result<Vec<Export>, _>>()
        });
        let loops =
            self.closed_loop.map(|loops| loops.all().into_iter().map(Pace::Closed).collect());
        let variants = Variants {
            exports: exports.transpose().map_err(usage)?.unwrap_or(vec![Export::Usual]),
            paces: loops.unwrap_or(vec![Pace::Trace]),
            seeds: seeds(self.seeds)?,
        };
        if question.hot.is_some() {
            let [export] = variants.exports[..] else {
                return Err(Wrong::usage("hot takes one export, because each has its own slice"));
            };
            question.export = export;
        }
        let study = question.study(cancelled)?;
        let lists = [study.rows(), variants.exports.len(), variants.paces.len()];
        if lists.iter().all(|length| *length > 0) {
            Ok((study, variants))
        } else {
            Err(Wrong::usage("a list of the plan is empty; add at least one entry"))
        }
    }
}

/// Returns the seeds, each once.
fn seeds(given: Option<Some_<u64>>) -> Result<Vec<u64>, Wrong> {
    let mut seeds = match given {
        None => vec![1],
        Some(Some_::One(count @ 1..=MOST_SEEDS)) => (1..=count).collect(),
        Some(Some_::Several(all)) if !all.is_empty() => all,
        Some(_) => {
            let text = format!(
                "seeds must be a number from 1 to {MOST_SEEDS}, or a list, as in \
                 [1, 7]"
            );
            return Err(Wrong::usage(text));
        }
    };
    seeds.sort_unstable();
    seeds.dedup();
    Ok(seeds)
}

/// Expands the braces of all texts and drops duplicates.
fn expand_braces(texts: Vec<String>) -> Result<Vec<String>, Wrong> {
    let mut all: Vec<String> = Vec::new();
    for text in &texts {
        for one in braces(text)? {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    Ok(all)
}

/// Expands the braces of `text`; the last brace varies fastest.
fn braces(text: &str) -> Result<Vec<String>, Wrong> {
    let wrong = || Wrong::usage(format!("`{text}`: a brace is not closed; write it as in {{a,b}}"));
    let Some((before, rest)) = text.split_once('{') else {
        return if text.contains('}') { Err(wrong()) } else { Ok(vec![text.to_owned()]) };
    };
    let (within, after) = rest.split_once('}').ok_or_else(wrong)?;
    if before.contains('}') || within.contains('{') {
        return Err(wrong());
    }
    let after = braces(after)?;
    let each = within
        .split(',')
        .flat_map(|word| after.iter().map(move |after| format!("{before}{}{after}", word.trim())));
    Ok(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_expand_to_alternatives() {
        assert_eq!(braces("hard").unwrap(), ["hard"]);
        assert_eq!(braces("a{1,2}b{x, y}").unwrap(), ["a1bx", "a1by", "a2bx", "a2by"]);
        assert_eq!(braces("hard{,:spare=10}").unwrap(), ["hard", "hard:spare=10"]);
        for bad in ["a{1,2", "a}", "a}{b", "a{1,{2}}"] {
            assert!(braces(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_plan_is_a_study_with_variants() {
        let text = "traces = \"synth:uniform:size=4k,span=1m,count={9,10}\"\n\
                    drives = [\"hatl-2g\", \"tlc:capacity=2g\"]\n\
                    layers = [\"log:gc={greedy,fifo}\"]\n\
                    warm = \"new\"\nclosed-loop = [1, 8]\nseeds = 3\n";
        let plan = SweepPlan::parse(text, "plan").expect("a plan");
        let (study, variants) =
            plan.clone().study(&Means::default(), &|| false).expect("it makes sense");
        assert_eq!((study.rows(), variants.paces.len()), (8, 2));
        assert_eq!(variants.seeds, [1, 2, 3]);
        let (_, variants) =
            plan.with_seeds(Some(1)).study(&Means::default(), &|| false).expect("a plan");
        assert_eq!(variants.seeds, [1]);
    }

    #[test]
    fn errors_in_a_plan_have_a_line_number() {
        let wrong = |text: &str| {
            let study = SweepPlan::parse(text, "p.toml")
                .and_then(|it| it.study(&Means::default(), &|| false));
            study.map(drop).expect_err("it is wrong").text
        };
        assert!(wrong("traces = \"a\"\nlayer = \"hard\"").starts_with("p.toml:2: unknown field"));
        assert!(wrong("traces = []").contains("empty"));
        assert!(wrong("traces = \"a.csv\"\nseeds = 0").contains("seeds must be a number"));
        assert!(wrong("traces = \"a.csv\"\nlayers = \"hrad\"").contains("did you mean `hard`"));
    }
}
