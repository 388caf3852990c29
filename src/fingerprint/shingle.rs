//! Runs of characters as features, for the stages that compare sets.

/// Hands out every run of `length` consecutive characters of a text, in order, repeats included. A shorter text has
/// none.
pub fn shingles<'t>(text: &'t str, length: usize, mut each: impl FnMut(&'t str)) {
    if length == 0 {
        return;
    }
    let starts = text.char_indices().map(|(at, _)| at);
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).skip(length - 1);
    for (start, end) in starts.zip(ends) {
        if let Some(shingle) = text.get(start..end) {
            each(shingle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cat_on_the_mat_has_the_two_grams_of_the_textbook() {
        let mut found: Vec<&str> = Vec::new();
        shingles("the cat sat on the mat", 2, |shingle| {
            if !found.contains(&shingle) {
                found.push(shingle);
            }
        });
        assert_eq!(found, ["th", "he", "e ", " c", "ca", "at", "t ", " s", "sa", " o", "on", "n ", " t", " m", "ma"]);
    }

    #[test]
    fn a_text_shorter_than_a_shingle_has_none() {
        shingles("天安", 3, |_| panic!("no shingle"));
        shingles("天安", 0, |_| panic!("no shingle"));
        let mut found = Vec::new();
        shingles("天安门", 3, |shingle| found.push(shingle));
        assert_eq!(found, ["天安门"]);
    }
}
