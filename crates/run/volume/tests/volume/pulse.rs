//! Detection of a stuck driver, as a watchdog uses it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_layers::LayerKind::Hard;
use hostftl_volume::front::{Answer, Answers, Job, JobOp};
use hostftl_volume::{Running, StartOptions, create, open};

use crate::common::{Client, Place};

/// Blocks the thread that delivers an answer until it is released.
struct Holds {
    came: Sender<()>,
    go: Mutex<Receiver<()>>,
}

impl Answers for Holds {
    fn take(&self, _: Answer) {
        self.came.send(()).unwrap();
        self.go.lock().unwrap().recv().ok();
    }
}

/// Returns whether a turn happens within `most` of the request.
fn beats(running: &Running, most: Duration) -> bool {
    let (before, begun) = (running.pulse(), Instant::now());
    while begun.elapsed() < most {
        if running.pulse() > before {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_stuck_driver_has_no_pulse_and_an_idle_one_does() {
    let place = Place::new();
    let spec = place.spec(Hard);
    create(&spec).unwrap();
    let (running, port) = open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
    assert!(beats(&running, Duration::from_secs(300)), "no request arrives");
    let ((came, comes), (let_go, go)) = (channel(), channel());
    let reply = Arc::new(Holds { came, go: Mutex::new(go) });
    port.submit(Job { op: JobOp::Flush, offset: 0, bytes: 0, cookie: 1, reply });
    comes.recv().unwrap();
    assert!(
        !beats(&running, Duration::from_millis(300)),
        "the driver waits for the answer's taker"
    );
    let_go.send(()).unwrap();
    assert!(beats(&running, Duration::from_secs(300)), "it goes on");
    Client::new(port).flush();
    running.stop().unwrap();
}
