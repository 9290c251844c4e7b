//! Both engines carry out every command: the exerciser's script over one to four devices.

use crate::common::{Ask, ENGINES, run, sparse};
use hostftl_io::Device;
use hostftl_layers::LayerKind::Exerciser;
use hostftl_layers::exerciser::{ExerciserOp, ExerciserRequest, requests};

const ROUNDS: u64 = 24;
const DEVICE: u64 = 1 << 20;

/// Returns the data of request number `id`, which is different for each request.
fn content(id: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 512 * 31 + at % 509 + id * 7) as u8).collect()
}

fn ask(id: usize, wish: ExerciserRequest) -> Ask {
    let ExerciserRequest { kind, lba, sectors, fua } = wish;
    let (at, len) = (lba * 512, u64::from(sectors) * 512);
    match kind {
        ExerciserOp::Read => Ask::Read { at, len: len as u32 },
        ExerciserOp::Write => Ask::Write { at, data: content(id, len as usize), fua },
        ExerciserOp::Trim => Ask::Trim { at, len },
        ExerciserOp::Zeroes => Ask::Zeroes { at, len },
        ExerciserOp::Flush => Ask::Flush,
    }
}

fn everything(devices: impl Fn() -> Vec<Device>) {
    for engine in ENGINES {
        let asks = requests(ROUNDS).enumerate().map(|(id, wish)| ask(id, wish)).collect();
        let (answers, _) = run(Exerciser, devices(), engine, asks);
        let mut model = vec![0; DEVICE as usize];
        for (id, ExerciserRequest { kind, lba, sectors, .. }) in requests(ROUNDS).enumerate() {
            let bytes = sectors as usize * 512;
            let here = &mut model[lba as usize * 512..][..bytes];
            match kind {
                ExerciserOp::Write => here.copy_from_slice(&content(id, bytes)),
                ExerciserOp::Trim | ExerciserOp::Zeroes => here.fill(0),
                ExerciserOp::Flush => {}
                ExerciserOp::Read => {
                    let found = answers[&(id as u64)].as_ref();
                    let found = found.unwrap_or_else(|why| panic!("{id}: {why:?}"));
                    assert!(found == here, "{engine:?}: request {id} read something else");
                }
            }
        }
        assert!(answers.values().all(Result::is_ok), "{engine:?}");
        assert_eq!(answers.len(), requests(ROUNDS).count());
    }
}

#[test]
fn over_memory() {
    for count in 1..=4 {
        everything(|| (0..count).map(|_| Device::open("mem:1M").unwrap()).collect());
    }
}

#[test]
fn over_files() {
    for count in [1, 4] {
        let files: Vec<_> = (0..count).map(|_| sparse(DEVICE)).collect();
        everything(|| {
            let blank = |path: &String| {
                let file = std::fs::File::options().write(true).open(path).unwrap();
                file.set_len(0).unwrap();
                file.set_len(DEVICE).unwrap();
                Device::open(path).unwrap()
            };
            files.iter().map(|(_, path)| blank(path)).collect()
        });
    }
}
