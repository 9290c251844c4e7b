//! Compares the memory of a volume's process, once all of it was touched, with the planned amount.
//! The test starts itself again, so that each layer has its own process.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::front::{Answer, Job, JobOp, Port};
use hostftl_volume::{CreateSpec, StartOptions, create, open};

/// Variable with the layer that this process measures.
const LAYER: &str = "HOSTFTL_TEST_MEMORY_OF";
const MIB: u64 = 1 << 20;
/// Number of requests of 4 KiB, which touch memory that only small writes use.
const SMALL: u64 = 20_000;

struct Client {
    port: Port,
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
    waiting: usize,
    random: u64,
}

impl Client {
    fn new(port: Port) -> Self {
        let (sender, answers) = channel();
        Client { port, sender, answers, waiting: 0, random: 1 }
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 11
    }

    /// Writes incompressible data, with `depth` such requests in flight.
    fn write(&mut self, depth: usize, offset: u64, bytes: u64) {
        while self.waiting >= depth {
            self.wait();
        }
        let mut data = self.port.buffer(bytes as u32);
        data.chunks_exact_mut(8)
            .for_each(|word| word.copy_from_slice(&self.random().to_le_bytes()));
        self.submit(JobOp::Write { data, fua: false }, offset, bytes);
    }

    fn submit(&mut self, op: JobOp, offset: u64, bytes: u64) {
        let reply = Arc::new(self.sender.clone());
        self.port.submit(Job { op, offset, bytes, cookie: 0, reply });
        self.waiting += 1;
    }

    fn wait(&mut self) {
        self.answers.recv().expect("an answer").result.expect("it is done");
        self.waiting -= 1;
    }

    fn settle(&mut self) {
        self.submit(JobOp::Flush, 0, 0);
        while self.waiting > 0 {
            self.wait();
        }
    }

    /// Touches every entry of the map and every buffer.
    fn touch_all(&mut self) {
        let all = self.port.export().bytes;
        for offset in (0..all / MIB).map(|index| index * MIB) {
            self.write(24, offset, MIB);
        }
        for (depth, bytes) in [(128, 64 << 10), (512, 4096)] {
            for _ in 0..SMALL * 4096 / bytes {
                let offset = self.random() % (all / bytes) * bytes;
                self.write(depth, offset, bytes);
            }
        }
        self.settle();
    }
}

/// Returns a volume of `layer` in a folder. It is large enough that a missing map would be
/// detected, where maps are large.
fn spec(layer: LayerKind, folder: &Path) -> CreateSpec {
    let name = |file: &str| folder.join(file).to_str().expect("a name").to_owned();
    let size = if layer == LayerKind::Hard { 3072 * MIB } else { 512 * MIB };
    let (devices, size) = match layer {
        LayerKind::Pblk => (vec![format!("zoned:{}?zone=4m&units=4", name("d"))], Some(size)),
        LayerKind::Rrpc => (vec![format!("zoned:{}?zone=4m&units=1", name("d"))], Some(size)),
        LayerKind::Scrambler => (vec![format!("drive:mlc-32g:capacity=512m@{}", name("d"))], None),
        LayerKind::Tier => {
            for (file, bytes) in [("fast", 64 * MIB), ("slow", size)] {
                std::fs::File::create(folder.join(file)).expect("a file").set_len(bytes).unwrap();
            }
            (vec![name("fast"), name("slow")], None)
        }
        _ => (vec![name("d")], Some(size)),
    };
    let layer = LayerConfig::new(layer);
    CreateSpec {
        allocate: false,
        path: folder.join("v"),
        devices,
        size,
        layer,
        label: String::new(),
        force: false,
    }
}

fn measure(layer: LayerKind) {
    // Use a memory file system if there is one: it does not count as memory of this process.
    let shm = Path::new("/dev/shm");
    let place = if shm.is_dir() { shm } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    let folder = tempfile::tempdir_in(place).expect("a folder");
    let spec = spec(layer, folder.path());
    let stated = create(&spec).expect("a volume").memory;
    let (running, port) =
        open(&spec.path).expect("the volume").start(&StartOptions::default()).expect("it starts");
    let mut client = Client::new(port);
    client.touch_all();
    let memory = running.status_handle().status().memory;
    let used = memory.resident_bytes.expect("the system tells");
    running.stop().expect("it stops");
    println!("{layer}: {} KiB in use of {memory:?}", used >> 10);
    assert_eq!(stated.planned_bytes, memory.planned_bytes, "status reports the value of create");
    // There are no clients on sockets.
    let wanted = memory.planned_bytes - memory.clients_bytes;
    let (off, most) = (used.abs_diff(wanted), (wanted / 10).max(16 * MIB));
    assert!(off <= most, "{layer}: {} KiB off what was stated: {memory:?}", off >> 10);
}

/// Measures a layer in its own process.
fn measure_apart(layer: LayerKind) {
    let mut again = Command::new(std::env::current_exe().expect("this test"));
    again.args(["--exact", "memory_in_use_matches_the_plan", "--nocapture"]);
    let output = again.env(LAYER, layer.name()).output().expect("it runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    println!("{}", stdout.lines().find(|line| line.contains("in use")).unwrap_or_default());
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{layer}: {stdout}{why}");
}

#[test]
fn memory_in_use_matches_the_plan() {
    if let Ok(layer) = std::env::var(LAYER) {
        return measure(layer.parse().expect("a layer"));
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(layer) = LayerKind::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            measure_apart(*layer);
        }
    };
    std::thread::scope(|scope| {
        let two = [scope.spawn(work), scope.spawn(work)];
        two.into_iter().for_each(|it| it.join().expect("each layer is as stated"));
    });
}
