//! Random overwrites, and verification of every sector.

use hostftl_core::{Event, HostOp, SECTOR};

use super::World;

/// Returns the content of a sector, which encodes its number and version.
pub(crate) fn sector(lba: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR];
    bytes[..8].copy_from_slice(&lba.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes[SECTOR - 8..].copy_from_slice(&(lba ^ version).to_le_bytes());
    bytes
}

/// Returns the content of a range in one version.
pub(crate) fn data(lba: u64, sectors: u64, version: u64) -> Vec<u8> {
    (lba..lba + sectors).flat_map(|lba| sector(lba, version)).collect()
}

/// Returns whether the layer opened the volume.
pub(crate) fn ready(world: &World) -> bool {
    world.events.iter().any(|event| matches!(event, Event::Ready { .. }))
}

/// A small random number generator.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % below
    }
}

/// Overwrites or trims random ranges `writes` times, with a flush after every `flush` of them, and
/// updates the versions.
pub(crate) fn churn(
    world: &mut World,
    versions: &mut [u64],
    random: &mut Random,
    writes: u64,
    flush: u64,
) {
    let space = versions.len() as u64;
    let mut ids = Vec::new();
    for i in 0..writes {
        let sectors = 1 + random.below(24);
        let lba = random.below(space - sectors);
        let version = 1_000_000 + random.0 % 1_000_000_000;
        if random.below(20) == 0 {
            let id = world.send(lba, sectors, |_| HostOp::Trim { fua: false });
            world.wait(id).unwrap();
            versions[lba as usize..(lba + sectors) as usize].fill(0);
        } else {
            let id = world.write(lba, data(lba, sectors, version), random.below(50) == 0);
            versions[lba as usize..(lba + sectors) as usize].fill(version);
            world.wait(id).unwrap();
            ids.push(id);
        }
        if i % flush == 0 {
            world.flush();
        }
    }
}

/// Compares every sector with its version.
pub(crate) fn verify(world: &mut World, versions: &[u64]) {
    for (chunk, list) in versions.chunks(16).enumerate() {
        let lba = chunk as u64 * 16;
        let found = world.read(lba, list.len() as u64).unwrap();
        for (i, version) in list.iter().enumerate() {
            let expected = match version {
                0 => vec![0; SECTOR],
                _ => sector(lba + i as u64, *version),
            };
            let found = &found[i * SECTOR..(i + 1) * SECTOR];
            assert!(found == expected, "sector {} is not version {version}", lba + i as u64);
        }
    }
}
