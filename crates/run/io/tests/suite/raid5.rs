//! Tests of the RAID 5 layer to which log arrays are compared.

use crate::common::{Ask, ENGINES, sparse, start_layer};
use hostftl_io::Device;
use hostftl_layers::Raid5;

const CHUNK: u32 = 16;
const BYTES: u64 = 1 << 20;

/// Returns the next pseudo-random number of a seed.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn written_data_reads_back_and_parity_is_consistent() {
    for (engine, count) in ENGINES.into_iter().zip([3, 6]) {
        let files: Vec<_> = (0..count).map(|_| sparse(BYTES)).collect();
        let open = |(_, name): &(_, String)| Device::open(name).unwrap();
        let devices: Vec<_> = files.iter().map(open).collect();
        let infos: Vec<_> = devices.iter().map(Device::info).collect();
        let plan = Raid5::plan(&infos, CHUNK, 8).unwrap();
        let exported = plan.limits.exported * 512;
        assert_eq!(exported, BYTES * (count - 1));
        let make = |buffers| Raid5::new(&infos, CHUNK, 8, buffers).unwrap();
        let (mut driver, mut script) = start_layer(plan, devices, engine, make);
        let (mut model, mut seed) = (vec![0; exported as usize], count);
        let mut whole = 0;
        for round in 0..300_u64 {
            let len = [512, 4096, 12_288, 65_536, 131_072][next(&mut seed) as usize % 5];
            // Four are in progress at once, each in its own quarter; some cover whole stripes.
            let (quarter, row) = (exported / 4, u64::from(CHUNK) * 512 * (count - 1));
            let at = round % 4 * quarter + next(&mut seed) % ((quarter - len) / 512 + 1) * 512;
            let at = if round % 3 == 0 { at.next_multiple_of(row).min(exported - len) } else { at };
            whole += u64::from(at % row == 0 && len >= row);
            let data: Vec<u8> = (0..len).map(|byte| (byte % 251 + round) as u8).collect();
            model[at as usize..][..len as usize].copy_from_slice(&data);
            script.asks.push_back(Ask::Write { at, data, fua: round % 7 == 0 });
            if round % 4 == 3 || round % 3 == 0 {
                driver.serve(&mut script).unwrap();
            }
        }
        assert!(whole > 5, "{whole} whole stripes");
        script.asks.push_back(Ask::Flush);
        driver.serve(&mut script).unwrap();
        assert!(script.answers.values().all(Result::is_ok));
        script.answers.clear();
        for at in (0..exported).step_by(65_536) {
            script.asks.push_back(Ask::Read { at, len: 65_536 });
        }
        driver.serve(&mut script).unwrap();
        let found: Vec<u8> = script.answers.into_values().flat_map(Result::unwrap).collect();
        assert!(found == model, "{engine:?}: it reads something else");
        driver.close().unwrap();
        let mut sum = vec![0; BYTES as usize];
        for (_, name) in &files {
            let bytes = std::fs::read(name).unwrap();
            sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
        }
        assert!(sum.iter().all(|byte| *byte == 0), "{engine:?}: the parity is wrong");
    }
}
