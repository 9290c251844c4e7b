//! Memory for payload: buffers of a few sizes, aligned to 4 KiB, each with a number.
//!
//! Invariants
//! - A buffer is free, or owned by exactly one [`Lease`] or one `Payload` of its number.
//! - Buffers do not overlap, and do not move while the arena exists.
//! - The layer's buffers are issued once. They are never shared with the host, so the layer never
//!   waits for a buffer.
//! - Buffer numbers are unique in the process, so a payload of another arena is always recognised.

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use hostftl_core::{BLOCK, Payload, SECTOR};

use crate::region::Region;

/// Number of buffers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Size of each buffer in bytes; a multiple of 4 KiB.
    pub bytes: u32,
    /// Number of buffers.
    pub count: u32,
}

/// Default host classes: 2, 8 and 24 MiB. The kernel provides pages on first use.
pub const HOST_CLASSES: [Class; 3] = [
    Class { bytes: 4 << 10, count: 512 },
    Class { bytes: 64 << 10, count: 128 },
    Class { bytes: 1 << 20, count: 24 },
];

/// Number of the first buffer of the next arena.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Set of buffers for the host and for one layer.
#[derive(Debug)]
pub struct Arena {
    /// Memory of all buffers.
    region: Region,
    /// Host classes in ascending order of size, then the layer's class.
    classes: Vec<PlacedClass>,
    free: Mutex<Free>,
    room: Condvar,
    /// For each buffer, whether a payload owns it.
    issued: Vec<AtomicBool>,
}

/// Free buffers.
#[derive(Debug)]
struct Free {
    /// Free buffers of each class.
    lists: Vec<Vec<u32>>,
    /// Threads that wait for a buffer. Without any, the system call that wakes them is skipped.
    waiting: u32,
}

/// Class with the position of its buffers.
#[derive(Debug)]
struct PlacedClass {
    class: Class,
    first: u32,
    offset: usize,
}

impl Class {
    /// Returns a class of `count` buffers of `sectors` sectors each, rounded up to whole blocks.
    pub fn with_sectors(sectors: u32, count: u32) -> Self {
        let bytes = (sectors as usize * SECTOR).next_multiple_of(BLOCK).max(BLOCK);
        Class { bytes: bytes as u32, count }
    }
}

impl Arena {
    /// Creates an arena with `host` buffers to lease, sorted by size, and `layer` buffers for the
    /// layer. Without host classes nothing can be leased.
    ///
    /// # Errors
    /// When the kernel refuses the memory.
    pub fn new(host: &[Class], layer: Class) -> io::Result<Arc<Self>> {
        assert!(host.is_sorted_by_key(|class| class.bytes));
        let count = host.iter().map(|class| class.count).sum::<u32>() + layer.count;
        // Numbers continue across arenas, so they are unique in the process.
        let (mut first, mut offset) = (NEXT.fetch_add(count, Ordering::Relaxed), 0);
        assert!(first.checked_add(count).is_some(), "numbers of buffers are used up");
        let issued = (0..count).map(|_| AtomicBool::new(false)).collect();
        let mut classes = Vec::new();
        for class in host.iter().copied().chain([layer]) {
            assert_eq!(class.bytes as usize % BLOCK, 0, "buffers are whole blocks");
            classes.push(PlacedClass { class, first, offset });
            first += class.count;
            offset += class.bytes as usize * class.count as usize;
        }
        // In reverse order, so that `pop` returns the lowest number first.
        let numbers =
            |placed: &PlacedClass| (placed.first..placed.first + placed.class.count).rev();
        let lists = classes.iter().map(|placed| numbers(placed).collect()).collect();
        let (region, free) = (Region::new(offset)?, Mutex::new(Free { lists, waiting: 0 }));
        Ok(Arc::new(Arena { region, classes, free, room: Condvar::new(), issued }))
    }

    /// Returns the maximum length of a lease in bytes.
    pub fn longest(&self) -> u32 {
        self.classes[self.classes.len() - 2].class.bytes
    }

    /// Leases a buffer of `bytes` bytes, of the smallest class with a free one. Waits until one is
    /// free. The content is not cleared.
    ///
    /// # Panics
    /// When `bytes` is 0 or more than [`Arena::longest`].
    pub fn lease(self: &Arc<Self>, bytes: u32) -> Lease {
        let classes = self.classes_for(bytes);
        let mut free = self.free();
        loop {
            if let Some(id) = free.lists[classes.clone()].iter_mut().find_map(Vec::pop) {
                return Lease { arena: self.clone(), id, bytes };
            }
            // Counted under the lock, so `give_back` cannot miss this thread.
            free.waiting += 1;
            free = self.room.wait(free).unwrap_or_else(|poisoned| poisoned.into_inner());
            free.waiting -= 1;
        }
    }

    /// Leases a buffer like [`Arena::lease`], but returns `None` instead of waiting.
    pub fn try_lease(self: &Arc<Self>, bytes: u32) -> Option<Lease> {
        let id = self.free().lists[self.classes_for(bytes)].iter_mut().find_map(Vec::pop)?;
        Some(Lease { arena: self.clone(), id, bytes })
    }

    /// Returns the host classes whose buffers have at least `bytes` bytes.
    fn classes_for(&self, bytes: u32) -> Range<usize> {
        assert!(bytes > 0 && bytes <= self.longest(), "a buffer of {bytes} bytes");
        let host = self.classes.len() - 1;
        self.classes[..host].partition_point(|placed| placed.class.bytes < bytes)..host
    }

    /// Issues the layer's buffers as payloads of `sectors` sectors each. This is possible once.
    ///
    /// # Panics
    /// On the second call, or when the buffers are shorter than that.
    pub fn layer_buffers(&self, sectors: u32) -> Vec<Payload> {
        let class = self.classes.last().expect("the layer's class is last").class;
        let ids = std::mem::take(self.free().lists.last_mut().expect("as above"));
        assert_eq!(ids.len(), class.count as usize, "the layer's buffers are issued once");
        assert!(sectors as usize * SECTOR <= class.bytes as usize, "buffers that are too short");
        ids.into_iter().map(|id| self.issue(id, sectors)).collect()
    }

    /// Issues a payload that owns buffer `id` from now on.
    fn issue(&self, id: u32, sectors: u32) -> Payload {
        let before = self.issued[self.index(id)].swap(true, Ordering::Relaxed);
        assert!(!before, "a buffer has one owner");
        Payload::issue(id, sectors)
    }

    /// Converts a payload that a layer returned into a lease.
    ///
    /// # Panics
    /// When this arena did not issue the payload, or has it back already.
    pub fn adopt(self: &Arc<Self>, payload: Payload) -> Lease {
        let bytes = payload.sectors() * SECTOR as u32;
        let id = payload.surrender();
        let before = self.issued[self.index(id)].swap(false, Ordering::Relaxed);
        assert!(before, "a payload comes back once, to the arena that issued it");
        Lease { arena: self.clone(), id, bytes }
    }

    /// Returns the index of a buffer among all buffers of the arena.
    ///
    /// # Panics
    /// When the arena has no buffer with that number.
    fn index(&self, id: u32) -> usize {
        assert!(self.has(id), "the buffer belongs to this arena");
        (id - self.classes[0].first) as usize
    }

    /// Returns whether the arena has a buffer with this number.
    pub(crate) fn has(&self, id: u32) -> bool {
        let first = self.classes[0].first;
        id >= first && ((id - first) as usize) < self.issued.len()
    }

    /// Returns the class of a buffer.
    ///
    /// # Panics
    /// When the arena has no buffer with that number.
    fn class_index(&self, id: u32) -> usize {
        self.index(id);
        self.classes.partition_point(|placed| placed.first <= id) - 1
    }

    /// Returns the address of `len` bytes from `from` in buffer `id`.
    ///
    /// # Panics
    /// When the range exceeds the buffer.
    pub(crate) fn address(&self, id: u32, from: u32, len: u32) -> *mut u8 {
        let placed = &self.classes[self.class_index(id)];
        let size = placed.class.bytes;
        assert!(from.checked_add(len).is_some_and(|end| end <= size), "a view past its buffer");
        let offset = placed.offset + (id - placed.first) as usize * size as usize;
        self.region.at(offset + from as usize, len as usize)
    }

    /// Returns the whole memory, to register it with the kernel.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn give_back(&self, id: u32) {
        let index = self.class_index(id);
        let mut free = self.free();
        free.lists[index].push(id);
        let waited_for = free.waiting > 0;
        drop(free);
        if waited_for {
            // All threads, because they may wait for different classes.
            self.room.notify_all();
        }
    }
}

/// Exclusive access to a buffer. Dropping it returns the buffer to the arena.
#[derive(Debug)]
pub struct Lease {
    arena: Arc<Arena>,
    id: u32,
    bytes: u32,
}

impl Lease {
    /// Converts the lease into a payload for a layer; its length must be whole sectors.
    pub fn into_payload(self) -> Payload {
        let lease = std::mem::ManuallyDrop::new(self);
        assert_eq!(lease.bytes as usize % SECTOR, 0, "a payload is whole sectors");
        let payload = lease.arena.issue(lease.id, lease.bytes / SECTOR as u32);
        // SAFETY: the lease is not used again, so its reference to the arena is released once.
        drop(unsafe { std::ptr::read(&lease.arena) });
        payload
    }
}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let start = self.arena.address(self.id, 0, self.bytes);
        // SAFETY: the lease is the only owner of the buffer, and the arena keeps it mapped.
        unsafe { std::slice::from_raw_parts(start, self.bytes as usize) }
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.arena.address(self.id, 0, self.bytes);
        // SAFETY: as in `deref`, and `&mut self` is the only borrow.
        unsafe { std::slice::from_raw_parts_mut(start, self.bytes as usize) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.arena.give_back(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Class; 2] = [Class { bytes: 4096, count: 1 }, Class { bytes: 65536, count: 2 }];

    fn arena() -> Arc<Arena> {
        Arena::new(&TWO, Class { bytes: 8192, count: 3 }).expect("little memory")
    }

    #[test]
    fn buffers_are_disjoint_aligned_and_reusable() {
        let arena = arena();
        let mut leases = [arena.lease(512), arena.lease(4097), arena.lease(65536)];
        for (index, lease) in leases.iter_mut().enumerate() {
            assert_eq!(lease.as_ptr() as usize % BLOCK, 0);
            lease.fill(index as u8 + 1);
        }
        assert!(leases.iter().zip(1..).all(|(l, mark)| l.iter().all(|byte| *byte == mark)));
        assert!(arena.try_lease(1).is_none() && arena.try_lease(5000).is_none());
        drop(leases);
        assert!(arena.try_lease(1).is_some());
    }

    #[test]
    fn a_payload_keeps_its_bytes() {
        let arena = arena();
        let mut lease = arena.lease(1024);
        lease.fill(7);
        let payload = lease.into_payload();
        assert_eq!(payload.sectors(), 2);
        let others = [arena.lease(1024), arena.lease(1024)];
        assert!(arena.try_lease(1024).is_none(), "also the longer buffers are taken");
        assert_eq!(arena.adopt(payload)[..], [7; 1024]);
        assert!(arena.try_lease(1024).is_some());
        drop(others);
    }

    #[test]
    fn a_waiting_lease_is_served_when_another_is_dropped() {
        let arena = arena();
        let (held, _long) = (arena.lease(4096), [arena.lease(65536), arena.lease(65536)]);
        let other = arena.clone();
        let waiter = std::thread::spawn(move || other.lease(4096).len());
        drop(held);
        assert_eq!(waiter.join().expect("no panic"), 4096);
    }

    #[test]
    fn the_layer_has_its_own_buffers() {
        let arena = arena();
        let buffers = arena.layer_buffers(16);
        assert_eq!(buffers.len(), 3);
        buffers.into_iter().for_each(|buffer| drop(arena.adopt(buffer)));
        assert!(arena.try_lease(65536).is_some());
    }

    #[test]
    #[should_panic(expected = "the buffer belongs to this arena")]
    fn a_payload_of_another_arena_is_refused() {
        let (mine, other) = (arena(), arena());
        other.adopt(mine.lease(512).into_payload());
    }

    #[test]
    #[should_panic(expected = "a payload comes back once")]
    fn a_payload_returns_once() {
        let arena = arena();
        let payload = arena.lease(512).into_payload();
        let forged = Payload::issue(payload.id(), 1);
        drop(arena.adopt(payload));
        arena.adopt(forged);
    }
}
