//! All that a drive tells, asked in one go.

use serde::{Deserialize, Serialize};

use crate::command::{Carrier, Command, PAGE_BYTES};
use crate::endurance::{self, Endurance};
use crate::fdp::{self, Configuration, Fdp, Placement, Statistics};
use crate::identify::{Controller, Namespace};
use crate::ocp::{self, Ocp};
use crate::smart::{self, Smart};

/// What a drive told. A page that it has not is none, and `refused` says why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Who it is.
    pub controller: Controller,
    /// The namespace that was asked for; none of a controller alone.
    pub namespace: Option<Namespace>,
    /// Health.
    pub smart: Option<Smart>,
    /// The wear of its endurance group.
    pub endurance: Option<Endurance>,
    /// The extended page of datacenter drives.
    pub ocp: Option<Ocp>,
    /// Flexible data placement, of a drive that knows it.
    pub fdp: Option<Fdp>,
    /// What could not be had, and why.
    pub refused: Vec<String>,
}

/// What was written to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Bytes, since a beginning that the drive chose.
    pub bytes: u64,
    /// Who counted.
    pub source: Source,
}

/// Which page tells what was written to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Page C0h of OCP.
    #[serde(rename = "OCP C0h")]
    Ocp,
    /// The statistics of flexible data placement.
    #[serde(rename = "FDP statistics")]
    Fdp,
    /// The page of the endurance group, in units of 10^9 bytes.
    #[serde(rename = "endurance group")]
    Endurance,
}

impl Source {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Source::Ocp => "OCP C0h",
            Source::Fdp => "FDP statistics",
            Source::Endurance => "endurance group",
        }
    }
}

impl Facts {
    /// Asks for everything; `namespace` is 0 for the controller alone.
    ///
    /// # Errors
    /// In words, when the drive does not even say who it is.
    pub fn gather(carrier: &mut impl Carrier, namespace: u32) -> Result<Self, String> {
        let mut page = vec![0; PAGE_BYTES];
        carrier.carry(&Command::who(), &mut page)?;
        let controller = Controller::parse(&page).ok_or("its page is too short")?;
        let mut asker = Asker { carrier, facts: Facts { controller, ..Facts::default() } };
        if namespace > 0 {
            let command = Command::identify(0, namespace);
            let parse = |page: &[u8]| Namespace::parse(namespace, page);
            asker.facts.namespace = asker.page("its namespace", &command, parse);
        }
        asker.facts.smart =
            asker.page("health (SMART)", &Command::log(0x02, 0, smart::BYTES), Smart::parse);
        let group = asker.facts.namespace.as_ref().map_or(0, |it| it.endurance_group);
        if group > 0 {
            let command = Command::log(0x09, group, endurance::BYTES);
            asker.facts.endurance = asker.page("its endurance group", &command, Endurance::parse);
        }
        asker.facts.ocp =
            asker.page("media units (OCP C0h)", &Command::log(0xc0, 0, ocp::BYTES), Ocp::parse);
        if asker.facts.controller.knows_fdp && group > 0 {
            asker.facts.fdp = asker.placement(namespace, group);
        }
        Ok(asker.facts)
    }

    /// What was written to the medium, by the page that counts best; none where no page counts.
    pub fn media_written(&self) -> Option<Media> {
        let of = |source, bytes: Option<u64>| bytes.map(|bytes| Media { bytes, source });
        let fdp = self.fdp.as_ref().filter(|fdp| fdp.on).and_then(|fdp| fdp.statistics);
        of(Source::Ocp, self.ocp.as_ref().map(|ocp| ocp.media_written_bytes))
            .or_else(|| of(Source::Fdp, fdp.map(|it| it.media_bytes)))
            .or_else(|| of(Source::Endurance, self.endurance.as_ref()?.media_bytes))
    }

    /// Years until the rated life is used, at the pace since the drive was made: by its wear, or by
    /// what it says can be written in a life; none where neither says anything yet.
    pub fn years_left(&self) -> Option<f64> {
        let smart = self.smart.as_ref()?;
        let by_estimate = || {
            let of_ocp = self.ocp.as_ref().and_then(|ocp| ocp.estimate_bytes);
            let all = of_ocp.or_else(|| self.endurance.as_ref()?.estimate_bytes)? as f64;
            let written = smart.written_bytes as f64;
            let known = written > 0.0 && smart.hours > 0;
            let left = (all - written).max(0.0);
            known.then(|| left / written * smart.hours as f64 / smart::HOURS_A_YEAR)
        };
        smart.years_left().or_else(by_estimate)
    }

    /// What was written to the medium over what hosts wrote, since the drive's beginning; none
    /// where only one of both is told.
    pub fn amplification(&self) -> Option<f64> {
        let media = self.media_written()?;
        let host = match media.source {
            Source::Ocp => self.smart.as_ref()?.written_bytes,
            Source::Fdp => self.fdp.as_ref()?.statistics?.host_bytes,
            Source::Endurance => self.endurance.as_ref()?.written_bytes,
        };
        (host > 0).then(|| media.bytes as f64 / host as f64)
    }
}

/// Asks, and remembers what was refused.
struct Asker<'a, C> {
    carrier: &'a mut C,
    facts: Facts,
}

impl<C: Carrier> Asker<'_, C> {
    fn page<T>(
        &mut self,
        what: &str,
        command: &Command,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let mut page = vec![0; command.bytes];
        let told = self.carrier.carry(command, &mut page);
        let told = told.and_then(|_| parse(&page).ok_or_else(|| "the page is another one".into()));
        told.map_err(|why: String| self.facts.refused.push(format!("{what}: {why}"))).ok()
    }

    fn placement(&mut self, namespace: u32, group: u16) -> Option<Fdp> {
        let feature = self.carrier.carry(&Command::placement_feature(group), &mut []);
        let feature = match feature {
            Ok(word) => word,
            Err(why) => {
                self.facts.refused.push(format!("whether placement (FDP) is on: {why}"));
                0
            }
        };
        let (on, index) = (feature & 1 == 1, (feature >> 8) as u8);
        let parse = |page: &[u8]| Configuration::parse(page, index);
        let command = Command::log(0x20, group, PAGE_BYTES);
        let configuration = self.page("the configuration of placement (FDP)", &command, parse)?;
        let mut fdp = Fdp { on, configuration, ..Fdp::default() };
        if on {
            let command = Command::log(0x22, group, fdp::STATISTICS_BYTES);
            fdp.statistics =
                self.page("the statistics of placement (FDP)", &command, Statistics::parse);
            fdp.placements = self.placements(namespace).unwrap_or_default();
        }
        Some(fdp)
    }

    /// The placements of a namespace. Where buffers are lists of segments a drive may refuse one
    /// that is longer than what it has to tell, so it is asked first how many there are.
    fn placements(&mut self, namespace: u32) -> Option<Vec<Placement>> {
        let head = Command::handles(namespace, Placement::list_bytes(0));
        let count = self.page("how many placements there are", &head, Placement::count)?;
        let all = Command::handles(namespace, Placement::list_bytes(count));
        self.page("placements", &all, Placement::parse_all)
    }
}
