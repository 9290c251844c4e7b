//! Conservation laws hold for real layers, and a layer that violates one is detected.

use hostftl_core::{Counters, Credits, HostOp, Input, Layer, Limits, Nanos, Out, Payload};
use hostftl_drives::DriveSpec;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_sim::{
    Front, HostCosts, Pace, PlayError, Player, Totals, Violation, World, check_laws,
};
use hostftl_trace::{Source, Stream};

/// A fault of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// Drops every hundredth request.
    Forgets,
    /// Counts one sector too many.
    Miscounts,
    /// Always requests its timer immediately.
    Restless,
    /// Fails its own consistency check.
    Unsound,
}

/// Passthrough with a fault.
struct Faulty {
    inner: AnyLayer,
    fault: Fault,
    seen: u64,
}

impl Layer for Faulty {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        if let Input::Host(request) = input {
            self.seen += 1;
            if self.fault == Fault::Forgets && self.seen.is_multiple_of(100) {
                request.ticket.close();
                if let HostOp::Read(data) | HostOp::Write { data, .. } = request.op {
                    data.surrender();
                }
                return;
            }
            return self.inner.step(now, Input::Host(request), out);
        }
        self.inner.step(now, input, out);
    }

    fn credits(&self) -> Credits {
        self.inner.credits()
    }

    fn next_timer(&self) -> Option<Nanos> {
        let restless = self.fault == Fault::Restless && self.seen > 10;
        if restless { Some(0) } else { self.inner.next_timer() }
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.inner.counters();
        counters.host_written += u64::from(self.fault == Fault::Miscounts);
        counters
    }

    fn map_bytes(&self) -> u64 {
        self.inner.map_bytes()
    }

    fn idle(&self) -> bool {
        self.inner.idle()
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.fault == Fault::Unsound { Err("planted") } else { self.inner.check() }
    }

    fn power_off(&mut self) {
        self.inner.power_off();
    }
}

fn layer(kind: LayerKind, spec: &DriveSpec) -> AnyLayer {
    let (config, devices) = (LayerConfig::new(kind), [spec.device_info()]);
    let plan = AnyLayer::plan(&config, &devices).expect("it works on this drive");
    let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
    AnyLayer::new(&config, &devices, buffers, Mode::Format).expect("the target was planned")
}

fn stream(text: &str) -> Stream {
    text.parse::<Source>().and_then(|source| source.open(1, false)).expect("a workload")
}

/// Plays a workload on a layer with a fault, and checks the laws at the end.
fn run(fault: Fault) -> Result<Totals, Violation> {
    let spec = DriveSpec::find("hatl-2g").expect("it is built in");
    let layer = Faulty { inner: layer(LayerKind::Passthrough, &spec), fault, seen: 0 };
    let mut world = World::new(layer, std::slice::from_ref(&spec), HostCosts::default())?;
    let mut front = Front::new(&world);
    let mut player = Player::new(stream("synth:mix:count=1000,flush=10"), Pace::Closed(8), 0);
    match player.play(&mut world, &mut front, |_| false) {
        Err(PlayError::Violation(violation)) => return Err(violation),
        Err(PlayError::Trace(error)) => panic!("{error}"),
        Ok(_) => {}
    }
    world.stop()?;
    check_laws(&world, &front.totals())?;
    Ok(front.totals())
}

#[test]
fn a_sound_layer_keeps_the_laws() {
    assert_eq!(run(Fault::Nothing).map(|totals| totals.transfers), Ok(1000));
}

#[test]
fn a_forgotten_request_is_a_stall() {
    assert!(matches!(run(Fault::Forgets), Err(Violation::Stall { outstanding: 8, .. })));
}

#[test]
fn a_miscount_is_found() {
    let error = run(Fault::Miscounts).unwrap_err().to_string();
    assert!(error.starts_with("sectors written, as counted by the layer: "), "{error}");
}

#[test]
fn a_restless_layer_is_stopped() {
    assert_eq!(run(Fault::Restless), Err(Violation::Livelock("the layer")));
}

#[test]
fn a_failed_layer_check_fails_the_run() {
    assert_eq!(run(Fault::Unsound), Err(Violation::Check("the layer", "planted")));
}

/// A single station has a simple exact solution: R = D·Q and X = 1/D.
#[test]
fn one_station_agrees_with_mean_value_analysis() {
    for depth in [1, 2, 4, 16, 64] {
        let spec = DriveSpec::find("hatl-2g").expect("it is built in");
        let layer = layer(LayerKind::Passthrough, &spec);
        let mut world = World::new(layer, std::slice::from_ref(&spec), HostCosts::default())
            .expect("it starts");
        let mut front = Front::new(&world);
        let records = stream("synth:uniform:size=64k,span=512m,count=4000");
        let mut player = Player::new(records, Pace::Closed(depth), 0);
        assert!(player.play(&mut world, &mut front, |_| false).is_ok());
        let (rate, mean) = (4000.0 / world.now() as f64, front.little().mean());
        assert!((rate * 800_000.0 - 1.0).abs() < 1e-9, "X = 1/D at {depth}");
        let expected = 800_000.0 * f64::from(depth);
        // The first and the last requests of a run encounter a shorter queue.
        assert!((mean / expected - 1.0).abs() < 0.02, "R = {mean} at {depth}");
        assert_eq!(front.little().check(), Ok(()));
    }
}
