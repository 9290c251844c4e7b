//! What is shown of the devices of a volume that is served, which changes when another device comes
//! in the place of one.

use hostftl_io::{Device, LinkWatch};

use crate::open::names::Names;
use crate::running::status::Status;
use crate::running::status::drive::Drives;
use crate::util::events::{Events, Level};

/// See the module text.
#[derive(Debug)]
pub(crate) struct Faces {
    /// The part of the status that stays the same while no device comes.
    pub still: Status,
    /// Which member each name means.
    pub names: Names,
    /// For each device that has one, its connection.
    links: Vec<Option<LinkWatch>>,
    /// What the drives tell.
    drives: Drives,
}

impl Faces {
    /// Of `devices`, before they are served.
    pub(crate) fn of(devices: &[Device], names: Names) -> Self {
        let links = devices.iter().map(Device::watch).collect();
        Faces { still: Status::default(), names, links, drives: Drives::of(devices) }
    }

    /// Each loss of a connection is an event from now on.
    pub(crate) fn tell_of_reconnects(&self, names: &[String], events: &Events) {
        for (name, link) in names.iter().zip(&self.links) {
            link.iter().for_each(|link| tell_of(name, link, events));
        }
    }

    /// Another device, with this UUID, is in place `index`.
    pub(crate) fn replace(&mut self, index: u8, device: &Device, uuid: [u8; 16], events: &Events) {
        let at = usize::from(index);
        self.names.replace(index, device.name(), uuid);
        self.links[at] = device.watch();
        self.links[at].iter().for_each(|link| tell_of(device.name(), link, events));
        self.drives.replace(at, device);
        self.still.replace_device(at, device);
    }

    /// The layer was opened anew over these devices, of which there were `count`.
    pub(crate) fn reopened(
        &mut self,
        still: Status,
        devices: &[Device],
        count: usize,
        events: &Events,
    ) {
        self.still.reopened(still);
        for device in &devices[count..] {
            let link = device.watch();
            link.iter().for_each(|link| tell_of(device.name(), link, events));
            self.links.push(link);
            self.drives.add(device);
        }
    }

    /// Adds to a status what the connections and the drives tell now.
    pub(crate) fn tell(&self, status: &mut Status) {
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

/// Tells an event each time that the connection to a device was made again.
fn tell_of(name: &str, link: &LinkWatch, events: &Events) {
    let (name, events) = (name.to_owned(), events.clone());
    link.follow(move |away| {
        let seconds = away.as_secs_f64();
        let text = format!("{name} is connected again after {seconds:.1} s");
        events.tell(Level::Warning, "reconnected", text);
    });
}
