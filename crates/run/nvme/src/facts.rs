//! All information about a drive in one query.

use serde::{Deserialize, Serialize};

use crate::command::{Carrier, Command, PAGE_BYTES};
use crate::endurance::{self, Endurance};
use crate::fdp::{self, Configuration, Fdp, Placement, Statistics};
use crate::identify::{Controller, Namespace};
use crate::ocp::{self, Ocp};
use crate::smart::{self, Smart};

/// Information about a drive. A page that is not available is `None`, and `refused` has the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Identity of the controller.
    pub controller: Controller,
    /// Queried namespace; `None` for a controller node.
    pub namespace: Option<Namespace>,
    /// Health.
    pub smart: Option<Smart>,
    /// Wear of the endurance group.
    pub endurance: Option<Endurance>,
    /// Extended page of datacenter drives.
    pub ocp: Option<Ocp>,
    /// Flexible data placement, if the drive supports it.
    pub fdp: Option<Fdp>,
    /// Unavailable information with the reasons.
    pub refused: Vec<String>,
}

/// Amount of data written to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Bytes since a start that the drive chose.
    pub bytes: u64,
    /// Source of the counter.
    pub source: Source,
}

/// Page with a counter of data written to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// OCP page C0h.
    #[serde(rename = "OCP C0h")]
    Ocp,
    /// Statistics of flexible data placement.
    #[serde(rename = "FDP statistics")]
    Fdp,
    /// Page of the endurance group, in units of 10^9 bytes.
    #[serde(rename = "endurance group")]
    Endurance,
}

impl Source {
    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Source::Ocp => "OCP C0h",
            Source::Fdp => "FDP statistics",
            Source::Endurance => "endurance group",
        }
    }
}

impl Facts {
    /// Queries everything; `namespace` is 0 for the controller only.
    ///
    /// # Errors
    /// A message, when the controller cannot be identified.
    pub fn gather(carrier: &mut impl Carrier, namespace: u32) -> Result<Self, String> {
        let mut page = vec![0; PAGE_BYTES];
        carrier.carry(&Command::who(), &mut page)?;
        let controller = Controller::parse(&page).ok_or("its page is too short")?;
        let mut reader = FactsReader { carrier, facts: Facts { controller, ..Facts::default() } };
        if namespace > 0 {
            let command = Command::identify(0, namespace);
            let parse = |page: &[u8]| Namespace::parse(namespace, page);
            reader.facts.namespace = reader.page("its namespace", &command, parse);
        }
        reader.facts.smart =
            reader.page("health (SMART)", &Command::log(0x02, 0, smart::BYTES), Smart::parse);
        let group = reader.facts.namespace.as_ref().map_or(0, |it| it.endurance_group);
        if group > 0 {
            let command = Command::log(0x09, group, endurance::BYTES);
            reader.facts.endurance = reader.page("its endurance group", &command, Endurance::parse);
        }
        reader.facts.ocp =
            reader.page("media units (OCP C0h)", &Command::log(0xc0, 0, ocp::BYTES), Ocp::parse);
        if reader.facts.controller.knows_fdp && group > 0 {
            reader.facts.fdp = reader.placement(namespace, group);
        }
        Ok(reader.facts)
    }

    /// Returns the amount of data written to the medium from the most accurate page; `None` without
    /// such a page.
    pub fn media_written(&self) -> Option<Media> {
        let media = |source, bytes: Option<u64>| bytes.map(|bytes| Media { bytes, source });
        let fdp = self.fdp.as_ref().filter(|fdp| fdp.on).and_then(|fdp| fdp.statistics);
        media(Source::Ocp, self.ocp.as_ref().map(|ocp| ocp.media_written_bytes))
            .or_else(|| media(Source::Fdp, fdp.map(|it| it.media_bytes)))
            .or_else(|| media(Source::Endurance, self.endurance.as_ref()?.media_bytes))
    }

    /// Returns the years until the rated life is used at the average rate so far, from the wear, or
    /// else from the estimated total. Returns `None` if neither is known yet.
    pub fn years_left(&self) -> Option<f64> {
        let smart = self.smart.as_ref()?;
        let by_estimate = || {
            let ocp_estimate = self.ocp.as_ref().and_then(|ocp| ocp.estimate_bytes);
            let all = ocp_estimate.or_else(|| self.endurance.as_ref()?.estimate_bytes)? as f64;
            let written = smart.written_bytes as f64;
            let known = written > 0.0 && smart.hours > 0;
            let left = (all - written).max(0.0);
            known.then(|| left / written * smart.hours as f64 / smart::HOURS_A_YEAR)
        };
        smart.years_left().or_else(by_estimate)
    }

    /// Returns the lifetime write amplification: bytes written to the medium per byte written by
    /// hosts. Returns `None` if one of them is unknown.
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

/// Sends queries, and records the refused ones.
struct FactsReader<'a, C> {
    carrier: &'a mut C,
    facts: Facts,
}

impl<C: Carrier> FactsReader<'_, C> {
    fn page<T>(
        &mut self,
        name: &str,
        command: &Command,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let mut page = vec![0; command.bytes];
        let parsed = self.carrier.carry(command, &mut page);
        let parsed = parsed
            .and_then(|_| parse(&page).ok_or_else(|| "the drive returned a different page".into()));
        parsed.map_err(|why: String| self.facts.refused.push(format!("{name}: {why}"))).ok()
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

    /// Returns the placements of a namespace. With scattered buffers a drive may refuse a buffer
    /// longer than its reply, so the number of placements is queried first.
    fn placements(&mut self, namespace: u32) -> Option<Vec<Placement>> {
        let head = Command::handles(namespace, Placement::list_bytes(0));
        let count = self.page("the number of placements", &head, Placement::count)?;
        let all = Command::handles(namespace, Placement::list_bytes(count));
        self.page("placements", &all, Placement::parse_all)
    }
}
