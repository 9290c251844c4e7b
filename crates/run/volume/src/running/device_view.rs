//! View of the devices of a served volume, which changes when a device is replaced or added.

use hostftl_io::{Device, LinkWatch};

use crate::open::names::Names;
use crate::running::status::Status;
use crate::running::status::drive::Drives;
use crate::util::events::{Events, Level};

/// Status, names, connections and drives of the devices.
#[derive(Debug)]
pub(crate) struct DeviceViews {
    /// Part of the status that changes only with the devices.
    pub fixed: Status,
    /// Names of the members.
    pub names: Names,
    /// Connection of each device that has one.
    links: Vec<Option<LinkWatch>>,
    /// Drives and their reports.
    drives: Drives,
}

impl DeviceViews {
    /// Creates the view of `devices` before they are served.
    pub(crate) fn new(devices: &[Device], names: Names) -> Self {
        let links = devices.iter().map(Device::watch).collect();
        DeviceViews { fixed: Status::default(), names, links, drives: Drives::open(devices) }
    }

    /// Reports each loss of a connection as an event from now on.
    pub(crate) fn report_reconnects(&self, names: &[String], events: &Events) {
        for (name, link) in names.iter().zip(&self.links) {
            link.iter().for_each(|link| report_reconnect(name, link, events));
        }
    }

    /// Records that member `index` is now another device, with this UUID.
    pub(crate) fn replace(&mut self, index: u8, device: &Device, uuid: [u8; 16], events: &Events) {
        let at = usize::from(index);
        self.names.replace(index, device.name(), uuid);
        self.links[at] = device.watch();
        self.links[at].iter().for_each(|link| report_reconnect(device.name(), link, events));
        self.drives.replace(at, device);
        self.fixed.replace_device(at, device);
    }

    /// Updates the view after the layer was reopened over these devices; `count` is their former
    /// number.
    pub(crate) fn reopened(
        &mut self,
        fixed: Status,
        devices: &[Device],
        count: usize,
        events: &Events,
    ) {
        self.fixed.reopened(fixed);
        for device in &devices[count..] {
            let link = device.watch();
            link.iter().for_each(|link| report_reconnect(device.name(), link, events));
            // Existing devices keep their links, which count reconnections since the start.
            self.links.push(link);
            self.drives.add(device);
        }
    }

    /// Adds the current reports of connections and drives to a status.
    pub(crate) fn add_to(&self, status: &mut Status) {
        status.set_ids(&self.names);
        for (device, watch) in status.devices.iter_mut().zip(&self.links) {
            if let Some(link) = watch.as_ref().map(LinkWatch::link) {
                (device.reconnects, device.connection_error) =
                    (Some(link.reconnects), link.trouble);
            }
        }
        status.set_drives(self.drives.ask());
    }
}

/// Reports an event whenever the connection to a device is restored.
fn report_reconnect(name: &str, link: &LinkWatch, events: &Events) {
    let (name, events) = (name.to_owned(), events.clone());
    link.follow(move |away| {
        let seconds = away.as_secs_f64();
        let text = format!("{name} reconnected after {seconds:.1} s");
        events.report(Level::Warning, "reconnected", text);
    });
}
