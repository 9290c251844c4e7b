//! Responses of an NVMe drive: any bytes are converted without a panic.

use anyhow::ensure;
use hostftl_nvme::{Carrier, Command, Facts, PAGE_BYTES, Queue};

/// A drive whose responses are consecutive parts of one input.
struct Told<'a> {
    rest: &'a [u8],
}

impl Carrier for Told<'_> {
    fn carry(&mut self, command: &Command, page: &mut [u8]) -> Result<u32, String> {
        let some = command.bytes.max(4).min(self.rest.len());
        let (now, rest) = self.rest.split_at(some);
        self.rest = rest;
        match now {
            [] => Err("the input is over".into()),
            _ if command.bytes == 0 => {
                Ok(now.iter().fold(0, |word, it| word << 8 | u32::from(*it)))
            }
            _ => {
                page[..now.len()].copy_from_slice(now);
                Ok(0)
            }
        }
    }
}

/// A drive that responds with a few significant fields, and records its responses.
#[derive(Default)]
struct Good {
    said: Vec<u8>,
}

impl Carrier for Good {
    fn carry(&mut self, command: &Command, page: &mut [u8]) -> Result<u32, String> {
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        match (command.queue, command.opcode, command.words[0] & 0xff) {
            (Queue::Admin, 0x06, 1) => put(96, &(1_u32 << 19).to_le_bytes()),
            (Queue::Admin, 0x06, _) => {
                put(0, &1_000_000_u64.to_le_bytes());
                put(24, &[0x10]);
                put(64, &[15, 0, 15, 0, 255, 0, 15, 0, 31, 0]);
                put(102, &[1]);
                put(130, &[12]);
            }
            (Queue::Admin, 0x02, 0xc0) => {
                put(496, &0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5_u128.to_le_bytes());
            }
            (Queue::Admin, 0x02, 0x20) => {
                put(0, &[1, 0]);
                put(16, &[72]);
                put(88, &[72]);
            }
            (Queue::Admin, 0x02, _) => put(1, &[0x2c, 1, 100, 10, 20]),
            (Queue::Io, ..) => put(14, &[4]),
            _ => {
                self.said.extend(0x101_u32.to_be_bytes());
                return Ok(0x101);
            }
        }
        self.said.extend(&page[..command.bytes]);
        Ok(0)
    }
}

/// Returns all responses of a drive, in the order of the commands.
pub(super) fn drives() -> Vec<Vec<u8>> {
    let mut good = Good::default();
    let facts = Facts::gather(&mut good, 1).expect("it is a good drive");
    assert!(facts.fdp.is_some_and(|fdp| fdp.on), "every page is asked for");
    vec![good.said]
}

/// Queries a drive that responds with the input.
pub(super) fn check(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let namespace = u32::from(!seed.is_multiple_of(8));
    let Ok(facts) = Facts::gather(&mut Told { rest: input }, namespace) else {
        ensure!(input.is_empty(), "the first page is always one");
        return Ok(());
    };
    ensure!(facts.refused.len() < 10, "{facts:?}");
    ensure!(facts.amplification().is_none_or(f64::is_finite), "{facts:?}");
    ensure!(facts.years_left().is_none_or(|years| years >= 0.0), "{facts:?}");
    if let Some(fdp) = &facts.fdp {
        ensure!(fdp.placements.len() <= PAGE_BYTES / 32, "{facts:?}");
    }
    ensure!(facts.controller.model.chars().all(|letter| !letter.is_control()), "{facts:?}");
    Ok(())
}
