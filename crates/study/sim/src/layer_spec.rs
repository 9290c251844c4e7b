//! A layer as the user names it, and its configuration on a stack of devices.

use hostftl_core::{DeviceInfo, Payload};
use hostftl_drives::DeviceSpec;
use hostftl_layers::{
    AnyLayer, Devices, LayerConfig, LayerKind, Mode, Plan, PlanError, Raid5, StudyUsage, Usage,
};

use crate::stack::Stack;

/// Minimum superpage in sectors unless the user sets it: 64 KiB.
const LEAST_SUPERPAGE: u32 = 128;
/// Name of the array that serves as a baseline.
const RAID5: &str = "raid5";
/// Default chunk of RAID 5 in sectors.
const CHUNK: u32 = 128;
/// Operations of RAID 5 that can be in progress.
const OPERATIONS: u16 = 256;

/// Description of the baseline array, for lists of layers.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// Name on the command line.
    pub name: &'static str,
    /// Function, in one line.
    pub does: &'static str,
    /// Purpose.
    pub pays: &'static str,
    /// Supported devices.
    pub devices: &'static str,
    /// Limitations.
    pub limits: &'static str,
    /// The parameter: key, values, default, and meaning.
    pub parameter: (&'static str, &'static str, &'static str, &'static str),
}

/// The RAID 5 array, which exists only in studies.
pub const ARRAY: Array = Array {
    name: RAID5,
    does: "parity with in-place updates: a small write reads the old data and the parity",
    pays: "baseline of comparisons of arrays; it has no journal, so it is for studies only",
    devices: "3 to 16 block devices",
    limits: "not available as a volume",
    parameter: ("chunk", "4k..=1m", "64k", "contiguous data on a device"),
};

/// A layer with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// Name in rows.
    pub name: String,
    config: LayerConfig,
    /// Chunk of RAID 5 in sectors. If set, `config` is unused.
    chunk: Option<u32>,
    /// Drive of the layer's journal.
    journal: Option<DeviceSpec>,
    /// Whether the user set the superpage.
    sized: bool,
}

impl From<LayerKind> for LayerSpec {
    fn from(kind: LayerKind) -> Self {
        let (name, config) = (kind.name().to_owned(), LayerConfig::new(kind));
        LayerSpec { name, config, chunk: None, journal: None, sized: false }
    }
}

impl LayerSpec {
    /// Parses `NAME[:KEY=VALUE]…`, as in `hard:spare=10`. The journal of `log` is the name of a
    /// drive model or a file with one, as in `log:journal=slc-1g`. `raid5` and `raid5:chunk=SIZE`
    /// are the array that serves as a baseline.
    ///
    /// # Errors
    /// The reason and the accepted form, as text for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.split(':').next() == Some(RAID5) {
            return raid5(text);
        }
        let (plain, journal) = Self::journal_apart(text);
        let config = LayerConfig::parse(&plain)?;
        let journal = journal.as_deref().map(DeviceSpec::find).transpose();
        let journal = journal.map_err(|why| format!("cannot use the journal of {text}: {why}"))?;
        let name = match text {
            "none" => config.kind.name().to_owned(),
            _ => text.to_owned(),
        };
        let sized = text.contains(":superpage=");
        Ok(LayerSpec { name, config, chunk: None, journal, sized })
    }

    /// Splits the text of a layer into the layer, with `journal=yes`, and the name of its journal,
    /// if the text has one.
    pub fn journal_apart(text: &str) -> (String, Option<String>) {
        let kind = text.split(':').next().and_then(|name| name.parse::<LayerKind>().ok());
        let is_own = |word: &str| {
            let key = word.split_once('=').map(|(key, _)| key);
            let has = |key| kind.is_some_and(|it| it.registration().parameter(key).is_some());
            key.is_some_and(has)
        };
        let (mut plain, mut journal): (Vec<&str>, Option<String>) = (Vec::new(), None);
        let mut within = false;
        for word in text.split(':') {
            let named = word.strip_prefix("journal=").filter(|it| !matches!(*it, "yes" | "no"));
            within &= !is_own(word);
            match (named, &mut journal) {
                (Some(name), None) => {
                    plain.push("journal=yes");
                    (within, journal) = (true, Some(name.to_owned()));
                }
                (None, Some(name)) if within => *name += &format!(":{word}"),
                _ => plain.push(word),
            }
        }
        (plain.join(":"), journal)
    }

    /// Returns a copy in which parameters that depend on the requests are chosen: writes are
    /// multiples of `grain` sectors, and the devices map in units of `map_unit` sectors.
    pub fn suited(&self, grain: u32, map_unit: u32) -> Self {
        let mut suited = self.clone();
        suited.config.suit(grain, map_unit);
        suited
    }

    /// Returns a copy in which an automatic spare is chosen for `infos`. If `exported` is given, at
    /// least this number of sectors remains for the host.
    pub fn spared(&self, infos: &[DeviceInfo], map_unit: u32, exported: Option<u64>) -> Self {
        let mut spared = self.clone();
        let mut config = self.on(map_unit);
        config.choose(&self.all(infos), exported);
        spared.config.spare_permille = config.spare_permille;
        let chosen = (config.log.spare, config.log.separation, config.log.chooses_separation);
        let log = &mut spared.config.log;
        (log.spare, log.separation, log.chooses_separation) = chosen;
        spared
    }

    /// Returns a copy whose areas and tables are smaller in proportion if `stack` is a slice of a
    /// drive.
    pub fn sliced(&self, stack: &Stack) -> Self {
        let (mut sliced, factor) = (self.clone(), stack.factor());
        if factor > 1.0 && self.chunk.is_none() {
            let mut config = self.on(stack.map_unit());
            hostftl_layers::slice(&mut config, &stack.scaled(factor)[0], factor);
            (sliced.config.shatl, sliced.config.mhatl) = (config.shatl, config.mhatl);
        }
        sliced
    }

    /// Returns the result of `check` for the configuration and its use on `stack`; `None` for
    /// RAID 5.
    pub(crate) fn check<T>(
        &self,
        stack: &Stack,
        study: StudyUsage,
        check: impl Fn(&LayerConfig, &Usage) -> T,
    ) -> Option<T> {
        let usage = Usage { devices: &self.all(&stack.infos()), study: Some(study) };
        let sliced = self.sliced(stack);
        self.chunk.is_none().then(|| check(&sliced.on(stack.map_unit()), &usage))
    }

    /// Returns the kind of layer; `None` for RAID 5, which is not one.
    pub fn kind(&self) -> Option<LayerKind> {
        self.chunk.is_none().then_some(self.config.kind)
    }

    /// Returns the rank of this choice as a baseline (lower is preferred): no layer, then RAID 5.
    /// `None` for all others.
    pub fn base(&self) -> Option<u8> {
        match self.kind() {
            Some(LayerKind::Passthrough) => Some(0),
            None => Some(1),
            _ => None,
        }
    }

    /// Returns whether the layer reads back metadata that it wrote.
    pub fn reads_metadata(&self) -> bool {
        self.kind().is_some_and(LayerKind::reads_metadata)
    }

    /// Returns the devices of the layer on `stack`: those of the stack, then the journal.
    pub fn devices(&self, stack: &Stack) -> Vec<DeviceSpec> {
        stack.devices.iter().chain(&self.journal).cloned().collect()
    }

    /// Returns the role of device `index` of `all` devices in a stack without the journal.
    pub fn role(&self, index: usize, all: usize) -> &'static str {
        match (self.kind(), index) {
            (_, index) if index >= all => "journal",
            (Some(LayerKind::Tier), 0) => "fast",
            (Some(LayerKind::Tier), _) => "slow",
            _ => "data",
        }
    }

    /// Returns the configuration on devices with indirection units (IU) of `map_unit` sectors.
    /// Unless the user set it, the superpage is the smallest multiple of the IU that has at least
    /// 64 KiB.
    pub fn on(&self, map_unit: u32) -> LayerConfig {
        let mut config = self.config.clone();
        if !self.sized {
            config.superpage = LEAST_SUPERPAGE.next_multiple_of(map_unit);
        }
        config
    }

    /// Plans the layer over `infos`, which map in units of `map_unit` sectors. The journal is added
    /// after them.
    ///
    /// # Errors
    /// The reason why the layer can't run on them.
    pub fn plan(&self, infos: &[DeviceInfo], map_unit: u32) -> Result<Plan, PlanError> {
        let infos = self.all(infos);
        if let Some(chunk) = self.chunk {
            return Raid5::plan(&infos, chunk, OPERATIONS);
        }
        let one = Err(PlanError("the layer takes one device"));
        match (self.config.kind.registration().devices, infos.len()) {
            (Devices::Block | Devices::Hinting | Devices::Zoned, 2..) => one,
            (Devices::FastAndSlow, 0 | 1 | 3..) => {
                Err(PlanError("the layer takes two devices, fast and slow, such as slc-1g+qlc-64k"))
            }
            _ => AnyLayer::plan(&self.on(map_unit), &infos),
        }
    }

    /// Creates the layer from its `plan`.
    ///
    /// # Errors
    /// The errors of [`LayerSpec::plan`].
    pub fn make(&self, stack: &Stack, plan: &Plan, mode: Mode) -> Result<AnyLayer, PlanError> {
        let infos = self.all(&stack.infos());
        let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
        match self.chunk {
            Some(chunk) => AnyLayer::raid5(&infos, chunk, OPERATIONS, buffers),
            None => AnyLayer::new(&self.on(stack.map_unit()), &infos, buffers, mode),
        }
    }

    /// Returns all devices of the layer: `infos`, then the journal.
    fn all(&self, infos: &[DeviceInfo]) -> Vec<DeviceInfo> {
        let journal = self.journal.iter().map(|it| it.device_info());
        infos.iter().cloned().chain(journal).collect()
    }

    /// Returns the kind and all parameters of the layer, each with its value on `stack`.
    pub fn words(&self, stack: &Stack) -> Vec<(&'static str, String)> {
        if let Some(chunk) = self.chunk {
            return vec![("kind", RAID5.to_owned()), ("chunk", format!("{}k", chunk / 2))];
        }
        let (config, registration) = (self.on(stack.map_unit()), self.config.kind.registration());
        let mut words = vec![("kind", registration.name.to_owned())];
        for parameter in registration.parameters {
            let word = match (parameter.key, &self.journal) {
                ("journal", Some(drive)) => Some(drive.name().to_owned()),
                _ => (parameter.get)(&config),
            };
            words.extend(word.map(|word| (parameter.key, word)));
        }
        words
    }

    /// Returns a text that identifies the layer and its configuration on `stack`.
    pub fn about(&self, stack: &Stack) -> String {
        match self.chunk {
            Some(chunk) => format!("raid5 in chunks of {chunk} sectors"),
            None => format!("{:?}", self.on(stack.map_unit())),
        }
    }
}

/// Parses `raid5` and `raid5:chunk=SIZE`.
fn raid5(text: &str) -> Result<LayerSpec, String> {
    let wrong =
        || format!("{text}: raid5 has the parameter chunk, from 4k to 1m, such as raid5:chunk=64k");
    let chunk = match text.strip_prefix("raid5").and_then(|rest| rest.strip_prefix(':')) {
        None => CHUNK,
        Some(rest) => {
            let size = rest.strip_prefix("chunk=").ok_or_else(wrong)?.to_ascii_lowercase();
            let kib = match (size.strip_suffix('k'), size.strip_suffix('m')) {
                (Some(kib), _) => kib.parse::<u32>().ok(),
                (_, Some(mib)) => mib.parse::<u32>().ok().and_then(|mib| mib.checked_mul(1024)),
                _ => None,
            };
            let kib = kib.filter(|kib| (4..=1024).contains(kib) && kib.is_multiple_of(4));
            2 * kib.ok_or_else(wrong)?
        }
    };
    let config = LayerConfig::new(LayerKind::Passthrough);
    Ok(LayerSpec { name: text.to_owned(), config, chunk: Some(chunk), journal: None, sized: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_journal_device_follow_its_name() {
        let parted = |text| {
            let (plain, journal) = LayerSpec::journal_apart(text);
            (plain, journal.unwrap_or_default())
        };
        let pair = |plain: &str, journal: &str| (plain.to_owned(), journal.to_owned());
        assert_eq!(parted("log:parity=yes"), pair("log:parity=yes", ""));
        assert_eq!(parted("log:journal=no:spare=9"), pair("log:journal=no:spare=9", ""));
        assert_eq!(
            parted("log:journal=slc-1g:capacity=64m:plp=false:gc=d-choices:4"),
            pair("log:journal=yes:gc=d-choices:4", "slc-1g:capacity=64m:plp=false")
        );
        let why = LayerSpec::parse("log:journal=slc-1g:journal=tlc").unwrap_err();
        assert!(why.contains("journal"), "{why}");
        let why = LayerSpec::parse("hard:journal=slc-1g").unwrap_err();
        assert!(why.contains("no parameter 'journal'"), "{why}");
    }

    #[test]
    fn raid_5_has_a_chunk() {
        let chunk = |text| LayerSpec::parse(text).map(|layer| layer.chunk);
        assert_eq!(chunk("raid5"), Ok(Some(128)));
        assert_eq!(chunk("raid5:chunk=512k"), Ok(Some(1024)));
        assert_eq!(chunk("raid5:chunk=1M"), Ok(Some(2048)));
        for text in ["raid5:chunk=5k", "raid5:chunk=2m", "raid5:spare=7", "raid5:chunk=", "raid50"]
        {
            assert!(chunk(text).is_err(), "{text}");
        }
    }
}
