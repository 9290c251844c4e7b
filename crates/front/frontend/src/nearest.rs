//! Suggestions for misspelt names.

/// Returns the message for an unknown `given`: its `kind`, the nearest of `known` if it is
/// similar, and all known names.
pub fn unknown(kind: &str, given: &str, known: &[&str]) -> String {
    format!("{}known: {}", unlisted(kind, given, known), known.join(", "))
}

/// Returns the message like [`unknown`], without the known names. A sentence can follow.
pub(crate) fn unlisted(kind: &str, given: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&given.to_lowercase(), name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3)
        .map(|(_, name)| format!("did you mean `{name}`? "))
        .unwrap_or_default();
    format!("no {kind} `{given}`; {near}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: [&str; 3] = ["none", "passthrough", "hard"];

    #[test]
    fn a_near_name_is_suggested() {
        let text = unknown("layer", "hrad", &LAYERS);
        let wanted = "no layer `hrad`; did you mean `hard`? \
                      known: none, passthrough, hard";
        assert_eq!(text, wanted);
        assert!(unknown("layer", "Passtrough", &LAYERS).contains("did you mean `passthrough`?"));
    }

    #[test]
    fn a_far_name_only_lists() {
        let text = unknown("layer", "zebra", &LAYERS);
        assert_eq!(text, "no layer `zebra`; known: none, passthrough, hard");
    }
}
