//! Recording of losses while a volume is served: the superblocks of the remaining members exclude a
//! lost member before durability is reported to a host again. The superblock of a device that
//! replaces a member is written here too.
//!
//! A separate thread writes, so that a member that does not respond delays only answers about
//! durability, and the layer's deadline for it continues.

mod new_device;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_core::DeviceSet;
use hostftl_format::roster::{Standing, Write};
use hostftl_format::superblock::{Superblock, places};
use hostftl_io::{Driver, IoError, Reserve, Snapshot, Waker, cuts};
use hostftl_layers::{AnyLayer, LayerConfig};

use crate::metadata::journal;
use crate::metadata::roster::{Roster, encode_page, standing};
use crate::open::event_host::EventHost;
use crate::util::error::{AdminError, AdminErrorKind};
use crate::util::events::Level;
use crate::util::lock;
pub(crate) use new_device::{DeviceContent, Handover, NewDevice};

/// Attempts of a write before flushes fail, and the pause between them.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// Messages to the thread.
#[derive(Debug)]
enum Order {
    /// Member states to record.
    Record(Standing),
    /// A new device replaces a member; the sender reports when all superblocks record it.
    Install(Box<NewDevice>, Sender<Result<(), AdminError>>),
    /// A lost device has to be closed, and this handle replaces its own; the sender reports
    /// completion.
    Close(u8, Reserve, Sender<()>),
}

/// Receives the result of an installation.
pub(crate) type Installed = Receiver<Result<(), AdminError>>;

/// Whether durability may be reported to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It may.
    Recorded,
    /// Not yet; the decision takes at most this long.
    Pending(Duration),
    /// The request must fail instead.
    Failed,
}

/// Handle of the superblock writer.
#[derive(Debug)]
pub(crate) struct SuperblockWriter {
    orders: Sender<Order>,
    progress: Arc<Mutex<Progress>>,
    /// Members that are about to be replaced: their losses are not recorded meanwhile.
    replacing: DeviceSet,
    /// Returns the superblocks at the end of the thread.
    end: Receiver<Roster>,
    /// Devices whose loss is recorded.
    members: DeviceSet,
    /// States last sent to the thread, and the time.
    wanted: Standing,
    since: Instant,
    /// Time limit for recording a loss.
    patience: Duration,
    /// Whether a device failed and the layer's reaction is not known yet.
    suspects: bool,
}

/// Progress of the thread.
#[derive(Debug, Default)]
struct Progress {
    /// Losses that all superblocks record.
    settled: DeviceSet,
    failed: Option<String>,
    /// Common state of all superblocks.
    recorded: Option<Superblock>,
}

/// State of the thread.
struct WriterThread {
    roster: Roster,
    reserves: Vec<Reserve>,
    /// Number of members that may be lost in total.
    tolerates: u32,
    /// State of the layer: whether it tolerates another loss now.
    shown: Arc<Mutex<Snapshot>>,
    progress: Arc<Mutex<Progress>>,
    waker: Arc<Waker>,
    event_host: Arc<Mutex<EventHost>>,
    orders: Receiver<Order>,
    /// Member states to record.
    all: Standing,
    /// Receiver of the result for the last new device.
    asks: Option<Sender<Result<(), AdminError>>>,
}

impl SuperblockWriter {
    /// Starts the writer of a volume whose superblocks are up to date; `None` for a volume in
    /// memory.
    pub(crate) fn new(
        roster: Roster,
        layer: &LayerConfig,
        driver: &Driver<AnyLayer>,
        fresh: DeviceSet,
        waker: Arc<Waker>,
        event_host: &Arc<Mutex<EventHost>>,
    ) -> Result<Option<Self>, IoError> {
        let (devices, tolerates) = (driver.devices(), layer.tolerates());
        let changes = layer.kind.registration().promises.changes();
        if roster.is_empty() {
            return Ok(None);
        }
        let reserve =
            |(device, sectors): (&hostftl_io::Device, u64)| device.reserve(places(sectors));
        let reserves =
            devices.iter().zip(roster.sectors()).map(reserve).collect::<Result<_, _>>()?;
        // Without redundancy no superblock records a loss.
        let survives = tolerates > 0 || changes;
        let data = || DeviceSet::ALL - journal::set(layer, devices.len());
        let members = if survives { data() } else { DeviceSet::EMPTY };
        let wanted = mask_members(standing(driver.layer(), fresh), members);
        let settled = DeviceSet::from_bits(wanted.lost);
        let recorded = roster.target();
        let progress = Arc::new(Mutex::new(Progress { settled, failed: None, recorded }));
        let (orders, inbox) = channel();
        let (leaves, end) = channel();
        let thread = WriterThread {
            roster,
            reserves,
            tolerates,
            shown: driver.shown(),
            progress: progress.clone(),
            waker,
            event_host: event_host.clone(),
            orders: inbox,
            // A device that recovery dropped is still present, and must not get another superblock.
            all: wanted,
            asks: None,
        };
        let run = move || drop(leaves.send(thread.run()));
        thread::Builder::new().name("keeper".into()).spawn(run).map_err(IoError::Start)?;
        Ok(Some(SuperblockWriter {
            orders,
            progress,
            replacing: DeviceSet::EMPTY,
            end,
            members,
            wanted,
            since: Instant::now(),
            patience: Duration::from_nanos(layer.patience().into_iter().max().unwrap_or_default()),
            suspects: false,
        }))
    }

    /// Records that a device failed; the next update has the layer's reaction.
    pub(crate) fn suspect(&mut self) {
        self.suspects = true;
    }

    /// Takes the current member states of the layer.
    pub(crate) fn update(&mut self, standing: Standing) {
        self.suspects = false;
        let more = without(mask_members(standing, self.members), self.replacing);
        let (was, mut wanted) = (self.wanted, self.wanted);
        take_in(&mut wanted, more);
        if wanted != was {
            // Only a new loss restarts the time limit: hosts wait for no other change.
            let since = if wanted.lost == was.lost { self.since } else { Instant::now() };
            (self.wanted, self.since) = (wanted, since);
            self.orders.send(Order::Record(wanted)).ok();
        }
    }

    /// Returns the common state of all superblocks.
    pub(crate) fn recorded(&self) -> Option<Superblock> {
        lock(&self.progress).recorded
    }

    /// Starts to install a new device: its superblock is written, then those of the others. The
    /// receiver gets the result.
    pub(crate) fn begin_install(&mut self, new_device: NewDevice) -> Installed {
        // The loss of a device that is being copied must still be recorded.
        if !matches!(new_device.content, DeviceContent::Everything(..)) {
            self.replacing.insert(new_device.index);
            self.wanted = without(self.wanted, DeviceSet::single(new_device.index));
        }
        let (sender, receiver) = channel();
        self.orders.send(Order::Install(Box::new(new_device), sender)).ok();
        receiver
    }

    /// Closes the handle of a lost device, which `absent` replaces. The receiver is notified.
    pub(crate) fn close(&mut self, index: u8, absent: Reserve) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.orders.send(Order::Close(index, absent, sender)).ok();
        receiver
    }

    /// Ends an installation, successful or not: the layer's state of that member counts again.
    pub(crate) fn end_install(&mut self, index: u8) {
        self.replacing.remove(index);
    }

    /// Returns whether durability may be reported now.
    pub(crate) fn durability(&self) -> Durability {
        // The failed device may be lost, and no superblock records that yet.
        if self.suspects {
            return Durability::Pending(self.patience);
        }
        let progress = lock(&self.progress);
        if DeviceSet::from_bits(self.wanted.lost).is_within(progress.settled) {
            return Durability::Recorded;
        }
        match self.patience.checked_sub(self.since.elapsed()) {
            Some(left) if progress.failed.is_none() => Durability::Pending(left),
            _ => Durability::Failed,
        }
    }

    /// Records the last losses, and ends the thread. Returns the superblocks; `None` when a member
    /// takes too long for an update that is not required.
    pub(crate) fn finish(mut self, standing: Standing) -> Result<Option<Roster>, IoError> {
        self.update(standing);
        let SuperblockWriter { orders, progress, end, wanted, patience, .. } = self;
        drop(orders);
        let left = end.recv_timeout(patience);
        let over = !matches!(left, Err(RecvTimeoutError::Timeout));
        let progress = lock(&progress);
        if DeviceSet::from_bits(wanted.lost).is_within(progress.settled) {
            return Ok(left.ok());
        }
        let devices = match &progress.failed {
            Some(why) if over => why.clone(),
            _ => "a device that must record a loss".into(),
        };
        Err(IoError::Unanswered { devices })
    }
}

impl WriterThread {
    /// Executes messages until the sender is dropped; returns the superblocks.
    fn run(mut self) -> Roster {
        while let Ok(order) = self.orders.recv() {
            self.take(order);
            for tries in 1.. {
                // Combine messages that arrived meanwhile.
                while let Ok(order) = self.orders.try_recv() {
                    self.take(order);
                }
                let Err((member, error)) = self.settle(self.all) else {
                    self.settled();
                    break;
                };
                // Redundancy covers the loss of this member, so flushes need not fail.
                if tries >= TRIES && self.can_do_without(member) {
                    self.all.lost |= DeviceSet::single(member).to_bits();
                    self.report(format!(
                        "cannot write the superblock of device {member}: {error}; the next start \
                         excludes it"
                    ));
                    continue;
                }
                if tries == TRIES {
                    self.fail(error.to_string());
                }
                match self.orders.recv_timeout(PAUSE) {
                    Ok(order) => self.take(order),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) if tries < TRIES => thread::sleep(PAUSE),
                    Err(RecvTimeoutError::Disconnected) => return self.roster,
                }
            }
            self.waker.ring();
        }
        self.roster
    }

    /// Returns whether the next start may exclude a member. A new device with missing chunks needs
    /// all other members.
    fn can_do_without(&self, member: u8) -> bool {
        let shown = lock(&self.shown);
        let (lost, may_lose) = match &shown.gauges {
            Some(gauges) => (shown.members.lost(), gauges.may_lose),
            None => (DeviceSet::EMPTY, self.tolerates),
        };
        let out = DeviceSet::from_bits(self.all.out.unwrap_or(0));
        let used = DeviceSet::ALL - (lost | out);
        self.all.can_exclude(member, used.to_bits(), may_lose)
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Record(more) => take_in(&mut self.all, more),
            Order::Install(new_device, asks) => match self.install(*new_device) {
                Ok(()) => self.asks = Some(asks),
                Err(why) => drop(asks.send(Err(why))),
            },
            Order::Close(index, absent, asks) => {
                self.reserves[usize::from(index)] = absent;
                asks.send(()).ok();
            }
        }
    }

    /// Writes the superblock of a new device, after all pending updates.
    fn install(&mut self, new_device: NewDevice) -> Result<(), AdminError> {
        self.settle(self.all).map_err(|(_, error)| error.to_string())?;
        let newest = self.roster.target().ok_or("there are no superblocks")?;
        let NewDevice { index, content, reserve } = new_device;
        if let DeviceContent::Everything(_, handover) = &content {
            if DeviceSet::from_bits(newest.missing | newest.removed).contains(index) {
                return Err("the old device failed meanwhile".into());
            }
            if !handover.begin() {
                return Err("timed out".into());
            }
        }
        let superblock = content.superblock(&newest, index);
        self.roster.install(superblock, |write| write_copy(&reserve, write))?;
        self.reserves[usize::from(index)] = reserve;
        match content {
            DeviceContent::Everything(_, handover) => handover.done(),
            _ => self.all = without(self.all, DeviceSet::single(index)),
        }
        Ok(())
    }

    /// Publishes that all superblocks are up to date.
    fn settled(&mut self) {
        let settled = DeviceSet::from_bits(self.all.lost);
        if !self.roster.may_promise(settled) && self.tolerates > 0 {
            // A later start would find only older states and trust them.
            return self.fail("cannot write the superblock of any device".into());
        }
        let recorded = self.roster.target();
        *lock(&self.progress) = Progress { settled, failed: None, recorded };
        self.asks.take().into_iter().for_each(|asks| drop(asks.send(Ok(()))));
    }

    /// Writes all outdated copies; on failure returns the member and the error.
    fn settle(&mut self, standing: Standing) -> Result<(), (u8, IoError)> {
        let reserves = &self.reserves;
        self.roster
            .settle_with(standing, |write| write_copy(&reserves[usize::from(write.member)], write))
    }

    fn fail(&mut self, why: String) {
        let error = AdminError::new(AdminErrorKind::Failed, why.as_str());
        self.asks.take().into_iter().for_each(|asks| drop(asks.send(Err(error.clone()))));
        self.report(format!("flushes fail, because a loss is not recorded on every device: {why}"));
        lock(&self.progress).failed = Some(why);
        self.waker.ring();
    }

    fn report(&self, text: String) {
        lock(&self.event_host).events.report(Level::Error, "superblock-failed", text);
    }
}

/// Writes a copy of a superblock durably.
fn write_copy(reserve: &Reserve, write: &Write) -> Result<(), IoError> {
    let (_, page) = encode_page(write);
    reserve.write(write.copy, &page)?;
    cuts::step();
    Ok(())
}

/// Returns the states with losses of `members` only.
fn mask_members(standing: Standing, members: DeviceSet) -> Standing {
    let (Standing { lost, out, .. }, members) = (standing, members.to_bits());
    Standing { lost: lost & members, out: out.map(|out| out & members), ..standing }
}

/// Returns the states without those of `devices`.
fn without(standing: Standing, devices: DeviceSet) -> Standing {
    let Standing { lost, out, joined, removed, leaving, spare } = standing;
    let rest = |set| (DeviceSet::from_bits(set) - devices).to_bits();
    Standing {
        lost: rest(lost),
        out: out.map(rest),
        joined: rest(joined),
        removed: rest(removed),
        leaving: leaving.map(rest),
        spare: spare.map(rest),
    }
}

/// Merges new states. A loss is permanent, whatever detected it, until another device replaces the
/// member.
fn take_in(all: &mut Standing, more: Standing) {
    let (joined, removed) = (all.joined | more.joined, all.removed | more.removed);
    // A lost member that is about to be replaced is not in `more`, and still holds no data.
    let kept = all.out.unwrap_or(0) & all.lost & !more.lost;
    let out = more.out.map(|out| out | kept);
    *all = Standing { lost: all.lost | more.lost, out, joined, removed, ..more };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_member_without_data_stays_so_while_it_is_replaced() {
        let lost = Standing { lost: 0b1000, out: Some(0b1000), ..Standing::default() };
        let mut all = lost;
        take_in(&mut all, without(lost, DeviceSet::single(3)));
        assert_eq!(all, lost);
        take_in(&mut all, Standing { out: Some(0), ..lost });
        assert_eq!(all.out, Some(0), "data was written to it meanwhile");
    }

    #[test]
    fn durability_waits_for_superblocks_with_a_timeout() {
        let ((orders, inbox), (_leaves, end)) = (channel(), channel());
        let progress = Arc::new(Mutex::new(Progress::default()));
        let (since, suspects, patience) = (Instant::now(), false, Duration::from_millis(300));
        let shared = progress.clone();
        let (members, wanted) = (DeviceSet::first_n(2), Standing::default());
        let lost = Standing::from_lost;
        let (replacing, second) = (DeviceSet::EMPTY, DeviceSet::single(1));
        let mut writer = SuperblockWriter {
            orders,
            progress,
            replacing,
            end,
            members,
            wanted,
            since,
            patience,
            suspects,
        };
        assert_eq!(writer.durability(), Durability::Recorded);
        writer.suspect();
        let is_pending = |it| matches!(it, Durability::Pending(left) if left <= patience);
        assert!(is_pending(writer.durability()), "the failed device is not known yet");
        writer.update(lost(0b100));
        assert_eq!(writer.durability(), Durability::Recorded, "no superblock records a journal");
        writer.update(lost(0b110));
        assert!(matches!(inbox.try_recv(), Ok(Order::Record(recorded)) if recorded == lost(0b010)));
        assert!(is_pending(writer.durability()));
        // The other member does not respond.
        thread::sleep(patience);
        assert_eq!(writer.durability(), Durability::Failed);
        lock(&shared).settled = second;
        assert_eq!(writer.durability(), Durability::Recorded, "it came back");
        writer.replacing = second;
        writer.wanted = without(writer.wanted, second);
        writer.update(lost(0b010));
        assert!(inbox.try_recv().is_err(), "another is about to come in its place");
        writer.end_install(1);
        writer.update(lost(0b010));
        assert!(matches!(inbox.try_recv(), Ok(Order::Record(recorded)) if recorded == lost(0b010)));
        lock(&shared).failed = Some("no room".into());
        writer.update(lost(0b011));
        assert_eq!(writer.durability(), Durability::Failed);
        drop(writer);
    }
}
