//! Bill of materials, as CycloneDX 1.5 in JSON.

use serde_json::{Value, json};

use super::Part;

/// Returns the bill of materials of this version of the program.
pub(super) fn emit(parts: &[Part], version: &str) -> Value {
    let program = format!("pkg:cargo/hostftl-cli@{version}");
    let names: Vec<_> = parts.iter().map(purl).collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": program,
            "name": "hostftl",
            "version": version,
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        }},
        "components": parts.iter().map(component).collect::<Vec<_>>(),
        "dependencies": [{ "ref": program, "dependsOn": names }],
    })
}

fn component(part: &Part) -> Value {
    let name = purl(part);
    let mut it = json!({
        "type": "library",
        "bom-ref": name,
        "name": part.name,
        "version": part.version,
        "licenses": [{ "expression": part.licence.replace('/', " OR ") }],
        "purl": name,
    });
    if let Some(checksum) = &part.checksum {
        it["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = &part.repository {
        it["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    it
}

fn purl(part: &Part) -> String {
    format!("pkg:cargo/{}@{}", part.name, part.version)
}
