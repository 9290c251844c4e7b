//! Metrics of a served volume, as a Prometheus scraper receives them.

use std::io::{Read, Write};
use std::net::TcpStream;

use hostftl_layers::LayerConfig;
use hostftl_serve::{Address, HttpOptions, HttpServer};
use hostftl_volume::{CreateSpec, StartOptions, StatusHandle, create, open};

/// Request of a scraper that accepts OpenMetrics.
const OPEN: &str = "GET /metrics HTTP/1.1\r\nHost: here\r\n\
                    Accept: application/openmetrics-text;version=1.0.0\r\n\r\n";

fn serve(address: &str, volumes: Vec<StatusHandle>) -> HttpServer {
    let address = Address::Tcp(address.parse().unwrap());
    HttpServer::serve(&HttpOptions { address, page: false, tls: None }, volumes).unwrap()
}

fn ask(metrics: &HttpServer, request: &str) -> String {
    let mut stream = TcpStream::connect(metrics.address().unwrap()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_served_until_closed() {
    let folder = tempfile::tempdir().unwrap();
    let spec = CreateSpec {
        allocate: false,
        path: folder.path().join("v.toml"),
        devices: vec!["mem:64M".into(), "mem:64M".into(), "mem:64M".into()],
        size: None,
        layer: LayerConfig::parse("log:parity=yes").unwrap(),
        label: "a \"label\"".into(),
        force: false,
    };
    create(&spec).unwrap();
    let (running, _port) = open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
    let metrics = serve("127.0.0.1:0", vec![running.status_handle()]);
    let answer = ask(&metrics, OPEN);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/openmetrics-text"), "{head}");
    assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{head}");
    assert!(body.ends_with("# EOF\n"));
    for line in [
        "hostftl_degraded{volume=\"a \\\"label\\\"\",layer=\"log\"} 0.0\n",
        "# TYPE hostftl_written_bytes counter\n",
        "step=\"device_writes\"} ",
        "index=\"2\",device=\"mem:64M\"} 1.0\n",
        "hostftl_build_info{",
    ] {
        assert!(body.contains(line), "no {line} in {body}");
    }
    let answer = ask(&metrics, "GET /metrics HTTP/1.1\r\nAccept: */*\r\n\r\n");
    let (head, classic) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\ncontent-type: text/plain; version=0.0.4"), "{head}");
    assert!(!classic.contains("# EOF"));
    assert!(classic.contains("# HELP hostftl_written_bytes_total Bytes"), "{classic}");
    assert!(classic.contains("# TYPE hostftl_written_bytes_total counter\n"), "{classic}");
    assert!(classic.contains("# TYPE hostftl_degraded gauge\n"), "{classic}");
    // The dashboard and the alert rules use metrics that exist. This volume has not all of them.
    let source = include_str!("../src/metrics/text.rs");
    for text in [
        include_str!("../../../../packaging/monitoring/hostftl.json"),
        include_str!("../../../../packaging/monitoring/alerts.yml"),
    ] {
        let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
        let words = text.split(|c| !is_word(c)).filter(|word| word.starts_with("hostftl_"));
        let plain = |word: &'static str| {
            let parts = ["_total", "_seconds_bucket", "_seconds_count"];
            parts.iter().fold(word, |word, part| word.trim_end_matches(part))
        };
        let used: Vec<&str> = words.map(plain).collect();
        assert!(used.len() >= 9, "{used:?}");
        for name in used {
            let own = name.strip_prefix("hostftl_").expect("filtered");
            assert!(source.contains(&format!("\"{own}\"")), "no metric {name}");
        }
    }
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("PUT /metrics HTTP/1.1\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = ask(&metrics, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    let address = metrics.address().unwrap();
    drop(metrics);
    assert!(TcpStream::connect(address).is_err(), "it listens no more");
    running.stop().unwrap();
}

#[test]
fn idle_connections_do_not_block_scrapers() {
    let metrics = serve("0.0.0.0:0", Vec::new());
    let address = ("127.0.0.1", metrics.address().unwrap().port());
    // More connections than may wait at once: the oldest are closed.
    let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    let mut oldest = &idle[0];
    assert_eq!(oldest.read(&mut [0]).unwrap_or(0), 0, "it was shut down");
}

#[test]
fn metrics_of_several_volumes_are_grouped_by_metric() {
    let folder = tempfile::tempdir().unwrap();
    let start = |label: &str| {
        let spec = CreateSpec {
            allocate: false,
            path: folder.path().join(format!("{label}.toml")),
            devices: vec!["mem:64M".into()],
            size: None,
            layer: LayerConfig::parse("hard").unwrap(),
            label: label.into(),
            force: false,
        };
        create(&spec).unwrap();
        open(&spec.path).unwrap().start(&StartOptions::default()).unwrap().0
    };
    let (one, two) = (start("one"), start("two"));
    let figures = vec![one.status_handle(), two.status_handle()];
    let metrics = serve("127.0.0.1:0", figures);
    let answer = ask(&metrics, OPEN);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.matches("# EOF\n").count(), 1);
    let heads: Vec<_> = body.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let mut once = heads.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), heads.len(), "each metric has one head");
    let lines: Vec<_> = body.lines().collect();
    let of = |label| {
        let sample = format!("hostftl_degraded{{volume=\"{label}\",layer=\"hard\"}} 0.0");
        lines.iter().position(|line| **line == sample).expect("a sample of each")
    };
    assert_eq!(of("two"), of("one") + 1, "samples of a metric are side by side");
    one.stop().unwrap();
    two.stop().unwrap();
}
