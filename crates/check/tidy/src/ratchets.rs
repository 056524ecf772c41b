//! Lists of what is to become less: a count for each measure and place, which may fall and never rise.

use std::collections::BTreeMap;

/// Counts by measure and place. Places without a finding have no entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<(String, String), usize>);

impl Counts {
    /// Counts `more` findings of a measure at a place.
    pub fn add(&mut self, measure: &str, place: &str, more: usize) {
        if more > 0 {
            *self.0.entry((measure.to_owned(), place.to_owned())).or_default() += more;
        }
    }

    /// Adds all of other counts.
    pub fn extend(&mut self, others: Self) {
        for ((measure, place), count) in others.0 {
            self.add(&measure, &place, count);
        }
    }

    /// Reads a list of rows `MEASURE | PLACE | COUNT`; empty lines and those with `#` are left out.
    ///
    /// # Errors
    /// With the row that cannot be read.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut counts = Self::default();
        for row in list.lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
            let parts: Vec<&str> = row.split(" | ").collect();
            let [measure, place, count] = parts.as_slice() else { return Err(row.to_owned()) };
            counts.add(measure, place, count.trim().parse().map_err(|_| row.to_owned())?);
        }
        Ok(counts)
    }

    /// The rows of a list, in order.
    #[must_use]
    pub fn rows(&self) -> String {
        self.0.iter().map(|((measure, place), count)| format!("{measure} | {place} | {count}\n")).collect()
    }

    /// These counts where they are lower than those of a list, and those of the list where these are higher.
    #[must_use]
    pub fn lowered(&self, listed: &Self) -> Self {
        let lower = listed.0.iter().filter_map(|(key, listed)| {
            let found = self.0.get(key).copied().unwrap_or_default().min(*listed);
            (found > 0).then(|| (key.clone(), found))
        });
        Self(lower.collect())
    }

    /// Where these counts differ from those of a list: what rose, and which rows are out of date.
    #[must_use]
    pub fn differences(&self, listed: &Self) -> (Vec<String>, Vec<String>) {
        let (mut rose, mut fell) = (Vec::new(), Vec::new());
        let keys: std::collections::BTreeSet<_> = self.0.keys().chain(listed.0.keys()).collect();
        for key in keys {
            let found = self.0.get(key).copied().unwrap_or_default();
            let permitted = listed.0.get(key).copied().unwrap_or_default();
            let line = format!("{} in {}: {found}, listed {permitted}", key.0, key.1);
            match found.cmp(&permitted) {
                std::cmp::Ordering::Greater => rose.push(line),
                std::cmp::Ordering::Less => fell.push(line),
                std::cmp::Ordering::Equal => {}
            }
        }
        (rose, fell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rose_and_what_fell_differ_and_only_what_fell_is_written() {
        let listed = Counts::parse("# why\ncircles | a | 2\ncircles | b | 1\ncircles | c | 4\n").unwrap();
        let mut found = Counts::default();
        for (place, count) in [("a", 3), ("c", 1), ("d", 1), ("e", 0)] {
            found.add("circles", place, count);
        }
        let (rose, fell) = found.differences(&listed);
        assert_eq!(rose, ["circles in a: 3, listed 2", "circles in d: 1, listed 0"]);
        assert_eq!(fell, ["circles in b: 0, listed 1", "circles in c: 1, listed 4"]);
        assert_eq!(found.lowered(&listed).rows(), "circles | a | 2\ncircles | c | 1\n");
        assert!(Counts::parse("circles | a").is_err());
    }
}
