//! What zoned devices tell of their zones when a volume is opened.

use hostftl_core::{About, Command, DeviceError, MetaBuf, Verdict};
use hostftl_format::report::{self, SEGMENT_BYTES};

use crate::config::Mode;

use crate::log::Engine;
use crate::log::layout::ROOT_ZONES;
use crate::log::ops::{Cx, give_up, works};
use crate::log::recovery::Step;

impl Engine {
    /// Asks a device for its zones from number `from` on.
    pub(in crate::log) fn ask_report(&mut self, device: u8, from: u32, cx: &mut Cx) -> bool {
        if device == self.layout.devices {
            return self.all_told();
        }
        if from >= ROOT_ZONES + self.layout.segments || self.devices.has_lost(device) {
            return self.go(Step::Report(device + 1, 0));
        }
        let Some(into) = self.recovery().report.take() else { return false };
        let command = Command::Report { device, about: About::Segments(from), into };
        self.recover(0, command, cx);
        true
    }

    /// A device has told.
    pub(in crate::log) fn take_report(
        &mut self,
        device: u8,
        buf: MetaBuf,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        let Step::Report(_, from) = self.recovery().step else {
            unreachable!("a device was asked for its zones")
        };
        let all = ROOT_ZONES + self.layout.segments;
        let told = result.map_or(0, |verdict| verdict.bytes / SEGMENT_BYTES as u32);
        let told = told.min(all - from);
        let least = self.layout.slots * self.layout.chunk;
        for index in 0..told {
            let Some(it) = report::segment(buf.pages(), index as usize) else {
                return give_up("a device's report makes no sense", cx);
            };
            match (from + index).checked_sub(ROOT_ZONES) {
                Some(segment) => self.devices.zones_mut().found(segment, device, &it, least),
                None => self.checkpoint.roots_mut().found(device, from + index, &it),
            }
        }
        self.recovery().report = Some(buf);
        if told > 0 {
            self.go(Step::Report(device, from + told));
        } else if !self.devices.has_lost(device) && works(cx) {
            give_up("a device's report ends too early", cx);
        }
        cx.wake();
    }

    /// All devices have told: a new volume forgets what was there.
    fn all_told(&mut self) -> bool {
        let lost = self.devices.lost();
        self.devices.zones_mut().find_open(lost);
        match self.recovery().mode() {
            Mode::Open => self.go(Step::Roots(0)),
            Mode::Format => self.clean(),
        }
    }
}
