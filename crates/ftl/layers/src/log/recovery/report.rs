//! Reads the zone reports of zoned devices when a volume is opened.

use hostftl_core::{About, Command, DeviceError, MetaBuf, Verdict};
use hostftl_format::report::{self, SEGMENT_BYTES};

use crate::config::Mode;

use crate::log::array::Array;
use crate::log::layout::ROOT_ZONES;
use crate::log::ops::{Cx, fail_volume, works};
use crate::log::recovery::{Recovery, Step};

impl Recovery {
    /// Requests a report of a device's zones from number `from` on.
    pub(crate) fn ask_report(
        &mut self,
        device: u8,
        from: u32,
        array: &mut Array,
        cx: &mut Cx,
    ) -> bool {
        if device == array.layout().devices {
            return self.all_reported(array);
        }
        let came = array.media.devices.untrusted().contains(device);
        let is_there = !array.media.devices.is_inactive(device) || came;
        if from >= ROOT_ZONES + array.layout().segments || !is_there {
            return self.go(Step::Report(device + 1, 0));
        }
        let Some(into) = self.report.take() else { return false };
        let command = Command::Report { device, about: About::Segments(from), into };
        if came {
            self.sent.send_to_joining(device, command, &mut array.media.devices, cx)
        } else {
            self.sent.send(0, command, &mut array.media.devices, cx)
        }
        true
    }

    /// Handles the zone report of a device.
    pub(crate) fn take_report(
        &mut self,
        device: u8,
        buf: MetaBuf,
        result: Result<Verdict, DeviceError>,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let Step::Report(_, from) = self.step else {
            unreachable!("a report follows a request for zones")
        };
        let all = ROOT_ZONES + array.layout().segments;
        let reported = result.map_or(0, |verdict| verdict.bytes / SEGMENT_BYTES as u32);
        let reported = reported.min(all - from);
        let least = array.layout().slots * array.layout().chunk;
        for index in 0..reported {
            let Some(it) = report::segment(buf.pages(), index as usize) else {
                return fail_volume("the zone report of a device is invalid", cx);
            };
            match (from + index).checked_sub(ROOT_ZONES) {
                Some(segment) => array.media.devices.zones_mut().found(segment, device, &it, least),
                None => array.mapping.checkpoint.roots_mut().found(device, from + index, &it),
            }
        }
        self.report = Some(buf);
        if reported > 0 {
            self.go(Step::Report(device, from + reported));
        } else if array.media.devices.is_inactive(device) {
            self.go(Step::Report(device + 1, 0));
        } else if works(cx) {
            fail_volume("the zone report of a device is too short", cx);
        }
        cx.wake();
    }

    /// Continues when all devices have reported: a new volume erases old contents.
    fn all_reported(&mut self, array: &mut Array) -> bool {
        let lost = array.media.devices.inactive();
        array.media.devices.zones_mut().find_open(lost);
        match self.mode() {
            Mode::Open => self.go(Step::Roots(0)),
            Mode::Format => self.clean(array),
        }
    }
}
