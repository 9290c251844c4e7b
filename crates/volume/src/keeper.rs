//! Losses while a volume is served: the superblocks of the members that are left say so before
//! anything else is promised to a host.
//!
//! A thread of its own writes, so that a member that hangs meanwhile holds up promises only, and
//! the layer's deadline for it goes on.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_format::roster::Standing;
use hostftl_format::superblock::places;
use hostftl_io::{Driver, IoError, Reserve, Waker};
use hostftl_layers::{AnyLayer, LayerConfig};

use crate::events::Level;
use crate::journal;
use crate::quiet::Quiet;
use crate::roster::{Roster, page_of, standing};

/// How often a write is tried before the hosts hear of it, and the pause before it is tried again.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// Whether a host may be told that something is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It may.
    Kept,
    /// Not yet: that is known within this time.
    Waits(Duration),
    /// It must be told that it is not.
    Broken,
}

/// See the module text.
#[derive(Debug)]
pub struct Keeper {
    orders: Sender<Standing>,
    progress: Arc<Mutex<Progress>>,
    /// Ends when the thread does.
    end: Receiver<()>,
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
}

/// What the thread has.
struct Clerk {
    roster: Roster,
    reserves: Vec<Reserve>,
    /// How many members may be lost in all.
    tolerates: u32,
    progress: Arc<Mutex<Progress>>,
    waker: Arc<Waker>,
    news: Arc<Mutex<Quiet>>,
    orders: Receiver<Standing>,
}

impl Keeper {
    /// One for a volume whose superblocks are as they should be; none where members never change.
    ///
    /// # Errors
    /// When the system gives no thread, or no second way to a device.
    pub fn new(
        roster: Roster,
        layer: &LayerConfig,
        driver: &Driver<AnyLayer>,
        fresh: u16,
        waker: Arc<Waker>,
        news: &Arc<Mutex<Quiet>>,
    ) -> Result<Option<Self>, IoError> {
        let (devices, tolerates) = (driver.devices(), layer.tolerates());
        let changes = layer.kind.registration().promises.changes;
        if tolerates == 0 && !changes || roster.is_empty() {
            return Ok(None);
        }
        let reserve =
            |(device, sectors): (&hostftl_io::Device, u64)| device.reserve(places(sectors));
        let reserves =
            devices.iter().zip(roster.sectors()).map(reserve).collect::<Result<_, _>>()?;
        let members = !journal::bit(layer, devices.len());
        let wanted = of_members(standing(driver.layer(), fresh), members);
        let settled = wanted.lost;
        let progress = Arc::new(Mutex::new(Progress { settled, failed: None }));
        let (orders, inbox) = channel();
        let (_end, end) = channel();
        let clerk = Clerk {
            roster,
            reserves,
            tolerates,
            progress: progress.clone(),
            waker,
            news: news.clone(),
            orders: inbox,
        };
        let run = move || {
            // Its end is what the keeper waits for.
            let _end = _end;
            clerk.run();
        };
        thread::Builder::new().name("keeper".into()).spawn(run).map_err(IoError::Start)?;
        Ok(Some(Keeper {
            orders,
            progress,
            end,
            members,
            wanted,
            since: Instant::now(),
            patience: Duration::from_nanos(layer.patience().into_iter().max().unwrap_or_default()),
            suspects: false,
        }))
    }

    /// A device failed; [`Keeper::look`] will say what that means.
    pub fn suspect(&mut self) {
        self.suspects = true;
    }

    /// What the layer says now.
    pub fn look(&mut self, standing: Standing) {
        self.suspects = false;
        let more = of_members(standing, self.members);
        let (was, mut wanted) = (self.wanted, self.wanted);
        take_in(&mut wanted, more);
        if wanted != was {
            let since = if wanted.lost == was.lost { self.since } else { Instant::now() };
            (self.wanted, self.since) = (wanted, since);
            self.orders.send(wanted).ok();
        }
    }

    /// Whether something may be promised now.
    pub fn promise(&self) -> Promise {
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

    /// Lets the members know who was lost to the last, and ends.
    ///
    /// # Errors
    /// When they can't be told.
    pub fn finish(mut self, standing: Standing) -> Result<(), IoError> {
        self.look(standing);
        let Keeper { orders, progress, end, wanted, patience, .. } = self;
        drop(orders);
        let over = end.recv_timeout(patience) != Err(RecvTimeoutError::Timeout);
        let progress = lock(&progress);
        if wanted.lost & !progress.settled == 0 {
            return Ok(());
        }
        let devices = match &progress.failed {
            Some(why) if over => why.clone(),
            _ => "a device that has to know that another is lost".into(),
        };
        Err(IoError::Unanswered { devices })
    }
}

impl Clerk {
    fn run(mut self) {
        let mut all = Standing::default();
        while let Ok(more) = self.orders.recv() {
            take_in(&mut all, more);
            for tries in 1.. {
                // What came meanwhile is told as well.
                while let Ok(more) = self.orders.try_recv() {
                    take_in(&mut all, more);
                }
                let Err((member, error)) = self.settle(all) else {
                    assert!(self.roster.may_promise(all.lost), "all was written");
                    let mut progress = lock(&self.progress);
                    (progress.settled, progress.failed) = (all.lost, None);
                    break;
                };
                let needed = (all.lost | 1 << member) & !all.out.unwrap_or(0);
                if tries >= TRIES && needed.count_ones() <= self.tolerates {
                    all.lost |= 1 << member;
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
                    Ok(more) => take_in(&mut all, more),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) if tries < TRIES => thread::sleep(PAUSE),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            self.waker.ring();
        }
    }

    /// Writes what there is to write; the member whose device refuses, and why.
    fn settle(&mut self, standing: Standing) -> Result<(), (u8, IoError)> {
        while let Some(write) = self.roster.next(standing) {
            let (_, page) = page_of(&write);
            match self.reserves[usize::from(write.member)].write(write.copy, &page) {
                Ok(()) => self.roster.wrote(&write),
                Err(error) => {
                    self.roster.failed(&write);
                    return Err((write.member, error));
                }
            }
        }
        Ok(())
    }

    fn fail(&self, why: String) {
        self.tell(format!(
            "flushes are answered with errors, because not every device can be told \
                           that another is lost: {why}"
        ));
        lock(&self.progress).failed = Some(why);
        self.waker.ring();
    }

    fn tell(&self, text: String) {
        lock(&self.news).tell(Level::Error, "device-lost", text);
    }
}

/// What is said of members alone.
fn of_members(standing: Standing, members: u16) -> Standing {
    let Standing { lost, out, .. } = standing;
    Standing { lost: lost & members, out: out.map(|out| out & members), ..standing }
}

/// A loss is never taken back, whoever found it.
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
        let ((orders, inbox), (_end, end)) = (channel(), channel());
        let progress = Arc::new(Mutex::new(Progress::default()));
        let patience = Duration::from_millis(300);
        let (since, suspects) = (Instant::now(), false);
        let shared = progress.clone();
        let (members, wanted) = (0b011, Standing::default());
        let lost = Standing::of_lost;
        let mut keeper =
            Keeper { orders, progress, end, members, wanted, since, patience, suspects };
        assert_eq!(keeper.promise(), Promise::Kept);
        keeper.suspect();
        assert!(matches!(keeper.promise(), Promise::Waits(_)), "what failed is not known yet");
        keeper.look(lost(0b100));
        assert_eq!(keeper.promise(), Promise::Kept, "the journal is no member that is told");
        keeper.look(lost(0b110));
        assert_eq!(inbox.try_recv(), Ok(lost(0b010)));
        assert!(matches!(keeper.promise(), Promise::Waits(left) if left <= patience));
        // The other member hangs.
        thread::sleep(patience);
        assert_eq!(keeper.promise(), Promise::Broken);
        lock(&shared).settled = 0b010;
        assert_eq!(keeper.promise(), Promise::Kept, "it came back");
        lock(&shared).failed = Some("no room".into());
        keeper.look(lost(0b011));
        assert_eq!(keeper.promise(), Promise::Broken);
        drop(keeper);
    }
}
