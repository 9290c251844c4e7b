//! Interrupted changes of the members. The volume file lists new devices as pending before any
//! device is written to. After a power cut their superblocks decide whether they are members: see
//! [`hostftl_format::changes`].
//!
//! A read-only start and `check` follow the superblocks and write nothing. A start that writes, and
//! each command that changes the members, finishes or undoes the change first.

use std::path::Path;

use hostftl_format::changes::resolve;
use hostftl_format::superblock::Superblock;

use crate::metadata::config::Config;
use crate::metadata::roster::clear_ends;
use crate::open::stack::{Assembly, Member, Redundancy, judge};
use crate::util::error::Error;

/// An interrupted change of the members.
#[derive(Debug, Default)]
pub(crate) struct InterruptedChange {
    /// Pending devices that are members, by name, with their member numbers.
    pub come: Vec<(String, u8)>,
    /// Listed devices that they replaced, by name.
    replaced: Vec<String>,
    /// Pending devices whose superblocks have to be cleared.
    undone: Vec<Member>,
    /// Pending devices that could not be read, by name.
    pub unread: Vec<String>,
}

impl InterruptedChange {
    /// Returns the superblocks of the members that [`InterruptedChange::choose`] would choose.
    pub(crate) fn preview(
        listed: &[Member],
        pending: &[Member],
        redundancy: Redundancy,
    ) -> Vec<Superblock> {
        let superblocks = |list: &[Member]| list.iter().map(|it| it.superblock).collect();
        let (listed, pending) = (superblocks(listed), superblocks(pending));
        let found = resolve(listed, pending, |it| *it, |list| judge(list, redundancy).is_whole());
        [found.kept, found.come].concat()
    }

    /// Chooses the members among the devices that the volume file lists and those that are pending.
    pub(crate) fn choose(
        listed: Vec<Member>,
        pending: Vec<Member>,
        redundancy: Redundancy,
    ) -> (Vec<Member>, Self) {
        let is_whole = |list: &[Superblock]| judge(list, redundancy).is_whole();
        let found = resolve(listed, pending, |it| it.superblock, is_whole);
        let name = |it: &Member| it.device.name().to_owned();
        let cut = InterruptedChange {
            come: found.come.iter().map(|it| (name(it), it.superblock.index)).collect(),
            replaced: found.replaced.iter().map(name).collect(),
            undone: found.undone,
            unread: Vec::new(),
        };
        let members = found.kept.into_iter().chain(found.come).collect();
        (members, cut)
    }

    /// Clears the superblocks of devices that did not become members.
    pub(crate) fn undo(&self) -> Result<(), Error> {
        self.undone.iter().try_for_each(|it| Ok(clear_ends(&it.device)?))
    }

    /// Returns a note on the outcome of the change.
    pub(crate) fn note(&self) -> String {
        let come = self.come.iter().map(|(name, index)| format!("{name} is device {index}"));
        let come: Vec<String> = come.collect();
        let outcome = if come.is_empty() {
            "no new device became a member, undone".into()
        } else {
            format!("{}, completed", come.join(", "))
        };
        format!("a change of devices was interrupted; {outcome}")
    }

    /// Finishes or undoes the change at a start, so that the volume file at `path` lists `devices`.
    /// Returns a note.
    pub(crate) fn settle(&self, path: &Path, devices: &[String]) -> Result<String, Error> {
        // Before the volume file forgets the pending names, or the superblocks could be found
        // later.
        self.undo()?;
        match Config::put_in_order(path, devices) {
            Ok(()) => Ok(self.note()),
            Err(error) if self.unread.is_empty() => Ok(format!(
                "{}; cannot rewrite the volume file ({error}), the superblocks take precedence",
                self.note()
            )),
            Err(error) => Err(Error::Failed(format!(
                "cannot undo an interrupted change of devices: {error}, and {} cannot be read; \
                 make the volume file writable",
                self.unread.join(", ")
            ))),
        }
    }
}

impl Config {
    /// Lists the members after an interrupted change, given the devices that were found, and no
    /// pending devices.
    pub(crate) fn take_cut(&mut self, found: &Assembly) {
        let cut = &found.cut;
        let mut listed: Vec<_> =
            std::mem::take(&mut self.devices).into_iter().enumerate().collect();
        listed.retain(|(_, name)| !cut.replaced.contains(name));
        let is_there = |name: &String| {
            found.members.iter().flatten().any(|member| member.device.name() == name)
        };
        let most = usize::from(found.superblock.count).saturating_sub(cut.come.len());
        // The superblock of a replaced device that can't be read is unknown, so it is identified by
        // its position or its absence.
        while listed.len() > most {
            let is_away = |(_, name): &&(usize, String)| !is_there(name);
            let is_old = |it: &&(usize, String)| {
                is_away(it) && cut.come.iter().any(|(_, index)| usize::from(*index) == it.0)
            };
            let old = listed.iter().find(is_old).or_else(|| listed.iter().find(is_away));
            let Some((old, _)) = old.cloned() else { break };
            listed.retain(|(at, _)| *at != old);
        }
        self.devices = listed.into_iter().map(|(_, name)| name).collect();
        self.devices.extend(cut.come.iter().map(|(name, _)| name.clone()));
        self.pending.clear();
        let devices = &self.devices;
        self.deadlines.retain(|name, _| devices.contains(name));
    }
}
