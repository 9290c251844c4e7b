//! Losses while a volume is served: the superblocks of the members that are left say so before
//! anything else is promised to a host. Another device that comes in the place of a lost one gets
//! its superblock here too.
//!
//! A thread of its own writes, so that a member that hangs meanwhile holds up promises only, and
//! the layer's deadline for it goes on.

pub(crate) mod seating;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_core::DeviceSet;
use hostftl_format::roster::{Record, Standing};
use hostftl_format::superblock::{Superblock, places};
use hostftl_io::{Driver, IoError, Reserve, Snapshot, Waker, cuts};
use hostftl_layers::{AnyLayer, LayerConfig};

use crate::metadata::journal;
use crate::metadata::roster::{Roster, page_of, standing};
use crate::metadata::superblocks;
use crate::open::event_host::Quiet;
use crate::running::superblock_writer::seating::Seating;
use crate::util::error::{AdminError, AdminErrorKind};
use crate::util::events::Level;

/// How often a write is tried before the hosts hear of it, and the pause before it is tried again.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// What the thread is told.
#[derive(Debug)]
enum Order {
    /// How the members stand.
    Say(Standing),
    /// Another device comes in the place of one: who hears when all superblocks say so.
    Seat(Box<Coming>, Sender<Result<(), AdminError>>),
    /// A lost device is to be closed: this is in its place. Who hears when it is.
    Close(u8, Reserve, Sender<()>),
}

/// A device that comes in the place of one that is lost.
#[derive(Debug)]
pub(crate) struct Coming {
    /// Whose place that is.
    pub index: u8,
    /// What it has.
    pub has: Has,
    /// The way to its superblocks.
    pub reserve: Reserve,
}

/// What a device has that comes.
#[derive(Debug)]
pub(crate) enum Has {
    /// Nothing, on so many sectors.
    Nothing(u64),
    /// All that the member has that it replaces, on so many sectors.
    Everything(u64, Arc<Seating>),
    /// What it had when it was lost; its superblock is this.
    AllUpTo(Box<Superblock>),
}

impl Has {
    /// The sectors of the device, as its superblock tells them.
    pub(crate) fn sectors(&self) -> u64 {
        match self {
            Has::Nothing(sectors) | Has::Everything(sectors, _) => *sectors,
            Has::AllUpTo(own) => own.device_sectors,
        }
    }

    /// What the device says from now on in place `index`, where the others say `newest`.
    fn superblock(&self, newest: &Superblock, index: u8) -> Superblock {
        match self {
            Has::Nothing(sectors) => superblocks::replacement(newest, index, *sectors),
            Has::Everything(sectors, _) => superblocks::copy(newest, index, *sectors),
            Has::AllUpTo(own) => superblocks::comeback(newest, own),
        }
    }
}

/// Whether a host may be told that something is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// It may.
    Kept,
    /// Not yet: that is known within this time.
    Waits(Duration),
    /// It must be told that it is not.
    Broken,
}

/// See the module text.
#[derive(Debug)]
pub(crate) struct Keeper {
    orders: Sender<Order>,
    progress: Arc<Mutex<Progress>>,
    /// Those in whose place another device is about to come, as a set of bits: until it is there
    /// nothing of them is told.
    coming: u16,
    /// What the thread leaves at its end.
    end: Receiver<Roster>,
    /// The devices whose loss is told.
    members: u16,
    /// What the thread was told last, and when.
    wanted: Standing,
    since: Instant,
    /// How long the members may take.
    patience: Duration,
    /// Whether a device failed, and nobody has asked the layer yet what that means.
    suspects: bool,
}

/// How far the thread is.
#[derive(Debug, Default)]
struct Progress {
    settled: u16,
    failed: Option<String>,
    /// What all superblocks say.
    said: Option<Superblock>,
}

/// What the thread has.
struct Clerk {
    roster: Roster,
    reserves: Vec<Reserve>,
    /// How many members may be lost in all.
    tolerates: u32,
    /// How the layer is: whether it can do without another device now.
    shown: Arc<Mutex<Snapshot>>,
    progress: Arc<Mutex<Progress>>,
    waker: Arc<Waker>,
    news: Arc<Mutex<Quiet>>,
    orders: Receiver<Order>,
    /// What is to be said of the members.
    all: Standing,
    /// Who waits for the device that came last.
    asks: Option<Sender<Result<(), AdminError>>>,
}

impl Keeper {
    /// One for a volume whose superblocks are as they should be; none for a volume in memory.
    ///
    /// # Errors
    /// When the system gives no thread, or no second way to a device.
    pub(crate) fn new(
        roster: Roster,
        layer: &LayerConfig,
        driver: &Driver<AnyLayer>,
        fresh: DeviceSet,
        waker: Arc<Waker>,
        news: &Arc<Mutex<Quiet>>,
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
        // Where no loss is survived, no superblock tells of one.
        let survives = tolerates > 0 || changes;
        let members = if survives { !journal::bit(layer, devices.len()) } else { 0 };
        let wanted = of_members(standing(driver.layer(), fresh), members);
        let settled = wanted.lost;
        let said = roster.target();
        let progress = Arc::new(Mutex::new(Progress { settled, failed: None, said }));
        let (orders, inbox) = channel();
        let (leaves, end) = channel();
        let clerk = Clerk {
            roster,
            reserves,
            tolerates,
            shown: driver.shown(),
            progress: progress.clone(),
            waker,
            news: news.clone(),
            orders: inbox,
            // A device that recovery dropped is there, and must not get another superblock.
            all: wanted,
            asks: None,
        };
        let run = move || drop(leaves.send(clerk.run()));
        thread::Builder::new().name("keeper".into()).spawn(run).map_err(IoError::Start)?;
        Ok(Some(Keeper {
            orders,
            progress,
            coming: 0,
            end,
            members,
            wanted,
            since: Instant::now(),
            patience: Duration::from_nanos(layer.patience().into_iter().max().unwrap_or_default()),
            suspects: false,
        }))
    }

    /// A device failed; [`Keeper::look`] will say what that means.
    pub(crate) fn suspect(&mut self) {
        self.suspects = true;
    }

    /// What the layer says now.
    pub(crate) fn look(&mut self, standing: Standing) {
        self.suspects = false;
        let more = without(of_members(standing, self.members), self.coming);
        let (was, mut wanted) = (self.wanted, self.wanted);
        take_in(&mut wanted, more);
        if wanted != was {
            let since = if wanted.lost == was.lost { self.since } else { Instant::now() };
            (self.wanted, self.since) = (wanted, since);
            self.orders.send(Order::Say(wanted)).ok();
        }
    }

    /// What all superblocks say.
    pub(crate) fn said(&self) -> Option<Superblock> {
        lock(&self.progress).said
    }

    /// Another device is about to come in the place of a lost one: its superblock is written, then
    /// those of the others. Who waits hears when all say so, or why they do not.
    pub(crate) fn begin_seat(&mut self, coming: Coming) -> Receiver<Result<(), AdminError>> {
        // The loss of a device that is copied is recorded as ever.
        if !matches!(coming.has, Has::Everything(..)) {
            let bit = 1 << coming.index;
            self.coming |= bit;
            self.wanted = without(self.wanted, bit);
        }
        let (says, hears) = channel();
        self.orders.send(Order::Seat(Box::new(coming), says)).ok();
        hears
    }

    /// A lost device is to be closed: `absent` is in its place. Who waits hears when it is.
    pub(crate) fn close(&mut self, index: u8, absent: Reserve) -> Receiver<()> {
        let (says, hears) = channel();
        self.orders.send(Order::Close(index, absent, says)).ok();
        hears
    }

    /// It is there, or will not come: what the layer says of that place counts again.
    pub(crate) fn end_seat(&mut self, index: u8) {
        self.coming &= !(1 << index);
    }

    /// Whether something may be promised now.
    pub(crate) fn promise(&self) -> Promise {
        if self.suspects {
            return Promise::Waits(self.patience);
        }
        let progress = lock(&self.progress);
        if self.wanted.lost & !progress.settled == 0 {
            return Promise::Kept;
        }
        match self.patience.checked_sub(self.since.elapsed()) {
            Some(left) if progress.failed.is_none() => Promise::Waits(left),
            _ => Promise::Broken,
        }
    }

    /// Lets the members know who was lost to the last, and ends. What the superblocks say; none
    /// when one of them takes too long to say something that may wait.
    ///
    /// # Errors
    /// When they can't be told.
    pub(crate) fn finish(mut self, standing: Standing) -> Result<Option<Roster>, IoError> {
        self.look(standing);
        let Keeper { orders, progress, end, wanted, patience, .. } = self;
        drop(orders);
        let left = end.recv_timeout(patience);
        let over = !matches!(left, Err(RecvTimeoutError::Timeout));
        let progress = lock(&progress);
        if wanted.lost & !progress.settled == 0 {
            return Ok(left.ok());
        }
        let devices = match &progress.failed {
            Some(why) if over => why.clone(),
            _ => "a device that has to know that another is lost".into(),
        };
        Err(IoError::Unanswered { devices })
    }
}

impl Clerk {
    /// Does what is ordered until nothing more can come; what the superblocks say then.
    fn run(mut self) -> Roster {
        while let Ok(order) = self.orders.recv() {
            self.take(order);
            for tries in 1.. {
                // What came meanwhile is told as well.
                while let Ok(order) = self.orders.try_recv() {
                    self.take(order);
                }
                let Err((member, error)) = self.settle(self.all) else {
                    self.settled();
                    break;
                };
                if tries >= TRIES && self.can_do_without(member) {
                    self.all.lost |= 1 << member;
                    self.tell(format!(
                        "device {member} is done without from the next start on, \
                                       because its superblock can't be written: {error}"
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

    /// Whether a member may be done without from the next start on: a device that came, and lacks
    /// something yet, needs all others.
    fn can_do_without(&self, member: u8) -> bool {
        let needed = (self.all.lost | 1 << member) & !self.all.out.unwrap_or(0);
        let gauges = lock(&self.shown).gauges;
        needed.count_ones() <= self.tolerates && gauges.is_none_or(|it| it.may_lose > 0)
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Say(more) => take_in(&mut self.all, more),
            Order::Seat(coming, asks) => match self.seat(*coming) {
                Ok(()) => self.asks = Some(asks),
                Err(why) => drop(asks.send(Err(why))),
            },
            Order::Close(index, absent, asks) => {
                self.reserves[usize::from(index)] = absent;
                asks.send(()).ok();
            }
        }
    }

    /// Writes the superblock of a device that comes. Nothing else is on its way then.
    fn seat(&mut self, coming: Coming) -> Result<(), AdminError> {
        self.settle(self.all).map_err(|(_, error)| error.to_string())?;
        let newest = self.roster.target().ok_or("there are no superblocks")?;
        let Coming { index, has, reserve } = coming;
        if let Has::Everything(_, seating) = &has {
            if (newest.missing | newest.gone) >> index & 1 == 1 {
                return Err("the old device was lost meanwhile".into());
            }
            if !seating.begin() {
                return Err("it took too long".into());
            }
        }
        let superblock = has.superblock(&newest, index);
        for (copy, at) in places(superblock.device_sectors).into_iter().enumerate() {
            reserve.write(copy, &superblock.emit(at))?;
            cuts::step();
        }
        self.roster.replace(index, Record { superblock, sound: [true; 2] });
        self.reserves[usize::from(index)] = reserve;
        match has {
            Has::Everything(_, seating) => seating.done(),
            _ => self.all = without(self.all, 1 << index),
        }
        Ok(())
    }

    /// All superblocks say what they should.
    fn settled(&mut self) {
        if !self.roster.may_promise(self.all.lost) && self.tolerates > 0 {
            // A later start would believe an older state.
            return self.fail("no device is left whose superblock can be written".into());
        }
        let (settled, said) = (self.all.lost, self.roster.target());
        *lock(&self.progress) = Progress { settled, failed: None, said };
        self.asks.take().into_iter().for_each(|asks| drop(asks.send(Ok(()))));
    }

    /// Writes what there is to write; the member whose device refuses, and why.
    fn settle(&mut self, standing: Standing) -> Result<(), (u8, IoError)> {
        while let Some(write) = self.roster.next(standing) {
            let (_, page) = page_of(&write);
            match self.reserves[usize::from(write.member)].write(write.copy, &page) {
                Ok(()) => {
                    cuts::step();
                    self.roster.wrote(&write);
                }
                Err(error) => {
                    self.roster.failed(&write);
                    return Err((write.member, error));
                }
            }
        }
        Ok(())
    }

    fn fail(&mut self, why: String) {
        let error = AdminError::new(AdminErrorKind::Failed, why.as_str());
        self.asks.take().into_iter().for_each(|asks| drop(asks.send(Err(error.clone()))));
        self.tell(format!(
            "flushes are answered with errors, because not every device can be told \
                           that another is lost: {why}"
        ));
        lock(&self.progress).failed = Some(why);
        self.waker.ring();
    }

    fn tell(&self, text: String) {
        lock(&self.news).events.tell(Level::Error, "superblock-failed", text);
    }
}

/// What is said of members alone.
fn of_members(standing: Standing, members: u16) -> Standing {
    let Standing { lost, out, .. } = standing;
    Standing { lost: lost & members, out: out.map(|out| out & members), ..standing }
}

/// The same, and nothing of those of `devices`.
fn without(standing: Standing, devices: u16) -> Standing {
    let Standing { lost, out, joined, gone, leaving, spare } = standing;
    let rest = |set: u16| set & !devices;
    Standing {
        lost: rest(lost),
        out: out.map(rest),
        joined: rest(joined),
        gone: rest(gone),
        leaving: leaving.map(rest),
        spare: spare.map(rest),
    }
}

/// A loss is never taken back, whoever found it, unless another device comes.
fn take_in(all: &mut Standing, more: Standing) {
    let (joined, gone) = (all.joined | more.joined, all.gone | more.gone);
    *all = Standing { lost: all.lost | more.lost, joined, gone, ..more };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_promised_before_the_members_know_and_nobody_waits_for_ever() {
        let ((orders, inbox), (_leaves, end)) = (channel(), channel());
        let progress = Arc::new(Mutex::new(Progress::default()));
        let patience = Duration::from_millis(300);
        let (since, suspects) = (Instant::now(), false);
        let shared = progress.clone();
        let (members, wanted) = (0b011, Standing::default());
        let lost = Standing::of_lost;
        let coming = 0;
        let mut keeper =
            Keeper { orders, progress, coming, end, members, wanted, since, patience, suspects };
        assert_eq!(keeper.promise(), Promise::Kept);
        keeper.suspect();
        assert!(matches!(keeper.promise(), Promise::Waits(_)), "what failed is not known yet");
        keeper.look(lost(0b100));
        assert_eq!(keeper.promise(), Promise::Kept, "the journal is no member that is told");
        keeper.look(lost(0b110));
        assert!(matches!(inbox.try_recv(), Ok(Order::Say(said)) if said == lost(0b010)));
        assert!(matches!(keeper.promise(), Promise::Waits(left) if left <= patience));
        // The other member hangs.
        thread::sleep(patience);
        assert_eq!(keeper.promise(), Promise::Broken);
        lock(&shared).settled = 0b010;
        assert_eq!(keeper.promise(), Promise::Kept, "it came back");
        keeper.coming = 0b010;
        keeper.wanted = without(keeper.wanted, 0b010);
        keeper.look(lost(0b010));
        assert!(inbox.try_recv().is_err(), "another is about to come in its place");
        keeper.end_seat(1);
        keeper.look(lost(0b010));
        assert!(matches!(inbox.try_recv(), Ok(Order::Say(said)) if said == lost(0b010)));
        lock(&shared).failed = Some("no room".into());
        keeper.look(lost(0b011));
        assert_eq!(keeper.promise(), Promise::Broken);
        drop(keeper);
    }
}
