//! A volume from `create` to the last stop, with every layer that a user may choose.

use crate::common::{Client, MIB, Place, layers};
use hostftl_core::HostError;
use hostftl_layers::LayerKind;
use hostftl_volume::front::JobOp;
use hostftl_volume::{RecordOptions, StartOptions, check, create, import, open, replay, status};

fn pattern(seed: u64, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| ((at / 512 + seed) * 31 + at % 512) as u8).collect()
}

fn each_layer(test: impl Fn(LayerKind)) {
    layers().chain([LayerKind::Scrambler]).for_each(test);
}

#[test]
fn data_survives_stop_and_start() {
    each_layer(|layer| {
        let place = Place::new();
        let created = create(&place.spec(layer)).unwrap();
        assert!(created.exported_bytes > 32 * MIB && created.exported_bytes < 64 * MIB);
        let path = place.path("v.toml");
        for round in 0..3 {
            let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
            assert_eq!(port.export().bytes, created.exported_bytes);
            let client = Client::new(port);
            if round > 0 {
                assert_eq!(client.read(MIB - 512, MIB), pattern(round - 1, MIB), "{layer}");
                assert_eq!(client.read(5 * MIB, 8192), vec![0; 8192]);
            }
            client.write(MIB - 512, &pattern(round, MIB), false).unwrap();
            client.write(5 * MIB, &pattern(9, 8192), true).unwrap();
            client.ask(JobOp::Trim { fua: false }, 5 * MIB, 4096).unwrap();
            client.ask(JobOp::Zeroes { fua: true }, 5 * MIB + 4096, 4096).unwrap();
            client.flush();
            assert_eq!(client.read(MIB - 512, MIB), pattern(round, MIB));
            let last = running.stop().unwrap();
            let traffic = last.traffic.unwrap();
            assert_eq!(traffic.requests_received, traffic.requests_answered);
            assert_eq!(traffic.host_write_bytes, MIB + 8192);
            let step = |name: &str| traffic.write_path.iter().find(|it| it.step == name).unwrap();
            let parts = [
                "data",
                "padding",
                "metadata",
                "garbage_collection",
                "read_modify_write",
                "parity",
            ];
            let sum: u64 = parts.iter().map(|name| step(name).bytes.unwrap()).sum();
            assert_eq!(sum, traffic.device_write_bytes.total, "{layer}: the steps add up");
            assert_eq!((step("device_writes").bytes, step("flash").bytes), (Some(sum), None));
            assert_eq!(last.devices[0].written_bytes, sum);
            let counts = last.latencies.iter().map(|it| (it.request.as_str(), it.count));
            let counts: Vec<_> = counts.collect();
            let reads = if round > 0 { 3 } else { 1 };
            assert_eq!(counts, [("read", reads), ("write", 2), ("flush", 1), ("trim", 2)]);
            let packs = layer == LayerKind::Log;
            assert!(packs || traffic.waf_layer.unwrap() >= 1.0);
            let after = client.write(0, &[0; 512], false);
            assert_eq!(after, Err(HostError::Io), "a stopped volume refuses jobs");
        }
        let checked = check(&path).unwrap();
        assert_eq!(checked.problems, Vec::<String>::new());
    });
}

#[test]
fn a_volume_in_use_shows_its_status_and_refuses_a_second_open() {
    each_layer(|layer| {
        let place = Place::new();
        create(&place.spec(layer)).unwrap();
        let path = place.path("v.toml");
        assert_eq!(status(&path).unwrap().served_by, None);
        let opened = open(&path).unwrap();
        let silent = status(&path).unwrap_err().to_string();
        assert!(silent.contains("does not report a status"), "{silent}");
        let (running, port) = opened.start(&StartOptions::default()).unwrap();
        Client::new(port).write(0, &[1; 4096], true).unwrap();
        let shown = status(&path).unwrap();
        assert_eq!(shown.served_by, Some(std::process::id()));
        assert_eq!(shown.traffic.unwrap().host_write_bytes, 4096);
        assert_eq!(shown.layer, layer.name());
        for refused in [open(&path).err(), check(&path).err(), import_again(&place)] {
            let message = refused.unwrap().to_string();
            let holder = format!("in use by process {}", std::process::id());
            assert!(message.contains(&holder), "{message}");
        }
        running.stop().unwrap();
        assert_eq!(status(&path).unwrap().served_by, None);
    });
}

fn import_again(place: &Place) -> Option<hostftl_volume::Error> {
    import(&[place.name("d0")], &place.path("again.toml")).err()
}

#[test]
fn a_volume_in_memory_is_empty_each_time() {
    LayerKind::block_layers().for_each(|layer| {
        let place = Place::new();
        let mut spec = place.spec(layer);
        (spec.devices, spec.size) = (vec!["mem:64M".into()], None);
        let created = create(&spec).unwrap();
        assert!(created.notes[0].contains("in memory"));
        for _ in 0..2 {
            let (running, port) =
                open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
            let client = Client::new(port);
            assert_eq!(client.read(MIB, 4096), vec![0; 4096]);
            client.write(MIB, &[7; 4096], true).unwrap();
            assert_eq!(client.read(MIB, 4096), vec![7; 4096]);
            assert!(running.status().notes[0].contains("in memory"));
            running.stop().unwrap();
        }
    });
}

#[test]
fn a_recording_replays_to_the_same_digest() {
    each_layer(|layer| {
        if layer.takes_zones() {
            return; // A recording has no reports of devices.
        }
        let place = Place::new();
        create(&place.spec(layer)).unwrap();
        let path = place.path("v.toml");
        for round in 0..2 {
            let recording = place.path(&format!("r{round}"));
            // A recording that reaches its limit is complete as well.
            let limit = if round == 0 { 8 << 10 } else { u64::MAX };
            let record = Some(RecordOptions { path: recording.clone(), limit });
            let options = StartOptions { record, ..StartOptions::default() };
            let (running, port) = open(&path).unwrap().start(&options).unwrap();
            let client = Client::new(port);
            for i in 0..2000 {
                client.write(i * 37 % 1000 * 4096, &pattern(i, 4096), i % 50 == 0).unwrap();
            }
            client.read(0, 65536);
            running.stop().unwrap();
            let replayed = replay(&recording).unwrap();
            let is_long = replayed.steps > 2000;
            assert!(replayed.is_same() && is_long == (round > 0), "{replayed:?}");
        }
        let bytes = std::fs::read(place.path("r1")).unwrap();
        std::fs::write(place.path("cut"), &bytes[..bytes.len() - 1]).unwrap();
        let message = replay(&place.path("cut")).unwrap_err().to_string();
        assert!(message.contains("it is truncated after") && message.contains("good records"));
        let mut rotten = bytes.clone();
        rotten[bytes.len() / 2] ^= 1;
        std::fs::write(place.path("rotten"), &rotten).unwrap();
        let message = replay(&place.path("rotten")).unwrap_err().to_string();
        assert!(message.contains("it is damaged after"), "{message}");
    });
}

#[test]
fn invalid_recordings_are_refused() {
    let place = Place::new();
    for bytes in [&b""[..], b"HFTLREC1", b"something else that is long enough"] {
        std::fs::write(place.path("r"), bytes).unwrap();
        let message = replay(&place.path("r")).unwrap_err().to_string();
        assert!(message.ends_with("it is not a recording of HostFTL"), "{message}");
    }
}
