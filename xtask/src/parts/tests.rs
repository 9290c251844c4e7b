//! Packages of a fictitious program: linked packages and findings.

use std::path::PathBuf;

use super::*;

fn part(licence: &str, source: &str) -> Part {
    Part {
        name: "some".into(),
        version: "1.0.0".into(),
        licence: licence.into(),
        source: source.into(),
        checksum: Some("ab".into()),
        folder: PathBuf::new(),
        repository: None,
    }
}

const DENY: &str = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"ISC\"]\n";

#[test]
fn forbidden_licences_are_found() {
    let found = |licence: &str| check(&[part(licence, REGISTRY)], DENY).unwrap();
    for good in ["MIT", "MIT/Apache-2.0", "Apache-2.0 AND ISC", "GPL-3.0-only OR MIT"] {
        assert!(found(good).is_empty(), "{good}");
    }
    for bad in ["GPL-3.0-only", "Apache-2.0 AND Zlib", "", "nonsense"] {
        assert_eq!(found(bad).len(), 1, "{bad}");
    }
}

#[test]
fn a_package_from_elsewhere_is_found() {
    let findings = check(&[part("MIT", "git+https://example.org/some")], DENY).unwrap();
    assert_eq!(
        findings,
        ["some 1.0.0 comes from git+https://example.org/some, not from crates.io"]
    );
}

#[test]
fn test_dependencies_are_excluded() {
    let of = |name: &str| {
        serde_json::json!({
            "id": name, "name": name, "version": "1.0.0", "license": "MIT",
            "manifest_path": "/x/Cargo.toml",
            "source": if name == PROGRAM { Value::Null } else { REGISTRY.into() },
        })
    };
    let dep = |name: &str, kind: Value| {
        let kinds = serde_json::json!([{ "kind": kind }]);
        serde_json::json!({ "pkg": name, "dep_kinds": kinds })
    };
    let of_program = vec![
        dep("linked", Value::Null),
        dep("builder", "build".into()),
        dep("tester", "dev".into()),
    ];
    let node = |name: &str, deps: Vec<Value>| serde_json::json!({ "id": name, "deps": deps });
    let metadata = serde_json::json!({
        "packages": [of(PROGRAM), of("linked"), of("builder"), of("tester"), of("below")],
        "resolve": { "nodes": [
            node(PROGRAM, of_program),
            node("linked", vec![dep("below", Value::Null)]),
            node("builder", vec![]), node("tester", vec![]), node("below", vec![]),
        ]},
    });
    let lock = "[[package]]\nname = \"below\"\nversion = \"1.0.0\"\nchecksum = \"c0ffee\"\n";
    let parts = list_parts(&metadata, lock).unwrap();
    let names: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["below", "builder", "linked"]);
    let bill = bill::emit(&parts, "0.1.0");
    assert_eq!(bill["components"][0]["purl"], "pkg:cargo/below@1.0.0");
    assert_eq!(bill["components"][0]["hashes"][0]["content"], "c0ffee");
}
