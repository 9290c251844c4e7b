//! Buffers of a driver: those of hosts, which are kept, and those of the layer, which are recreated
//! when another layer takes over.

use std::io;
use std::sync::Arc;

use hostftl_core::Payload;

use crate::arena::{Arena, Class};
use crate::region::Region;

/// Buffers of hosts and of one layer.
#[derive(Clone, Debug)]
pub struct Memory {
    host: Arc<Arena>,
    layer: Arc<Arena>,
}

impl Memory {
    /// Creates buffers of this class for a layer, in addition to those of hosts.
    ///
    /// # Errors
    /// When the kernel refuses the memory.
    pub fn new(host: Arc<Arena>, layer: Class) -> io::Result<Self> {
        Ok(Memory { host, layer: Arena::new(&[], layer)? })
    }

    /// Returns the buffers of hosts.
    pub fn host(&self) -> &Arc<Arena> {
        &self.host
    }

    /// Issues the layer's buffers as payloads of `sectors` sectors each. This is possible once.
    ///
    /// # Panics
    /// On the second call, or when the buffers are shorter than that.
    pub fn layer_buffers(&self, sectors: u32) -> Vec<Payload> {
        self.layer.layer_buffers(sectors)
    }

    /// Returns the address of `len` bytes from `from` in buffer `id`.
    ///
    /// # Panics
    /// When the range exceeds the buffer, or neither arena has the buffer.
    pub(crate) fn address(&self, id: u32, from: u32, len: u32) -> *mut u8 {
        if self.layer.has(id) {
            self.layer.address(id, from, len)
        } else {
            self.host.address(id, from, len)
        }
    }

    /// Returns the memory of both arenas, to register it with the kernel.
    pub(crate) fn regions(&self) -> [&Region; 2] {
        [self.host.region(), self.layer.region()]
    }
}

impl From<Arc<Arena>> for Memory {
    /// Uses an arena with both kinds of buffers.
    fn from(arena: Arc<Arena>) -> Self {
        Memory { host: arena.clone(), layer: arena }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_buffers_survive_new_layer_buffers() {
        let class = |bytes, count| Class { bytes, count };
        let host = Arena::new(&[class(4096, 2)], class(4096, 0)).unwrap();
        let mut lease = host.lease(4096);
        lease.fill(7);
        let payload = lease.into_payload();
        for count in [1, 5] {
            let memory = Memory::new(host.clone(), class(8192, count)).unwrap();
            let own = memory.layer_buffers(16);
            assert_eq!(own.len(), count as usize);
            // SAFETY: the test owns both buffers, and they have that length.
            unsafe {
                memory.address(own[0].id(), 0, 8192).write_bytes(1, 8192);
                assert_eq!(*memory.address(payload.id(), 0, 4096), 7);
            }
            for payload in own {
                payload.void();
            }
        }
        assert_eq!(host.adopt(payload)[..], [7; 4096]);
    }
}
