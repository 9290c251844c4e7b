//! Numbers with a noun, in the singular or the plural.

/// Formats a count: `1 range`, `2 ranges`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!(counted(0, "range"), "0 ranges");
        assert_eq!(counted(1, "range"), "1 range");
        assert_eq!(counted(21, "range"), "21 ranges");
    }
}
