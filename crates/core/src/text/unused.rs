//! Words of a user that no text can have, because texts are cut into other words.

use super::analyzer::{Analyzer, SettingsError, lines_of};
use super::han::is_han;
use super::settings::{Segmenter, Settings, StopWords};

/// Words of the user's lists that are never used, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusedWords {
    /// In the lists of `text.stopwords`.
    pub stopwords: Vec<String>,
    /// In `text.jieba.user_dict`.
    pub dictionary: Vec<String>,
}

impl UnusedWords {
    /// Finds them. Loads dictionaries if there are lists of the user.
    ///
    /// # Errors
    ///
    /// As [`Analyzer::new`].
    pub fn of(settings: &Settings) -> Result<Self, SettingsError> {
        let lists = || {
            settings.stopwords.iter().filter_map(|list| match list {
                StopWords::List(contents) => Some(contents),
                StopWords::Zh | StopWords::En => None,
            })
        };
        let dictionary = settings.jieba.user_dict.as_deref().unwrap_or_default();
        if lists().next().is_none() && dictionary.is_empty() {
            return Ok(Self::default());
        }
        // Stop words themselves are left out of the words of a text.
        let analyzer = Analyzer::new(&Settings { stopwords: Vec::new(), ..settings.clone() })?;
        let is_one_word = |written: &str| {
            let Some(normal) = analyzer.normal_word(written) else { return false };
            let mut words = Vec::new();
            analyzer.words(&normal, |word| words.push(word.text.to_owned()));
            words == [normal]
        };
        let words = lists().flat_map(|list| lines_of(list)).flat_map(|(_, line)| line.split_whitespace());
        let stopwords = words.filter(|word| !is_one_word(word));
        let is_of_dictionary = |word: &str| match settings.segmenter {
            Segmenter::Unicode => false,
            // Only Han text is cut by the dictionary. How often a word occurs decides where it is joined.
            Segmenter::Auto => analyzer.normal_word(word).is_some_and(|word| word.chars().all(is_han)),
            Segmenter::Jieba => {
                analyzer.normal_word(word).is_some_and(|word| word.chars().all(is_han)) || is_one_word(word)
            }
        };
        let words = lines_of(dictionary).filter_map(|(_, line)| line.split_whitespace().next());
        let dictionary = words.filter(|word| !is_of_dictionary(word));
        Ok(Self {
            stopwords: stopwords.map(str::to_owned).collect(),
            dictionary: dictionary.map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unused(segmenter: Segmenter) -> UnusedWords {
        let stopwords = "the\nSK-II\n[...]\n的\nfoo bar\ndon't\n# a comment\n记者\n3.14\n";
        let dictionary = "石墨烯電池 100000 n\n\nSK-II 10\n卡拉OK\n云计算\n[...]\n";
        UnusedWords::of(&Settings {
            segmenter,
            stopwords: vec![StopWords::Zh, StopWords::List(stopwords.to_owned())],
            jieba: super::super::JiebaSettings { user_dict: Some(dictionary.to_owned()), hmm: true },
            ..Settings::default()
        })
        .unwrap()
    }

    #[test]
    fn words_that_texts_are_never_cut_into_are_found() {
        let auto = unused(Segmenter::Auto);
        assert_eq!(auto.stopwords, ["SK-II", "[...]"]);
        assert_eq!(auto.dictionary, ["SK-II", "卡拉OK", "[...]"]);
        let unicode = unused(Segmenter::Unicode);
        assert_eq!(unicode.dictionary.len(), 5, "no dictionary is used: {unicode:?}");
        assert!(unicode.stopwords.contains(&"SK-II".to_owned()), "{unicode:?}");
        let jieba = unused(Segmenter::Jieba);
        assert_eq!(jieba.dictionary, ["[...]"], "the dictionary joins Latin, too");
    }

    #[test]
    fn built_in_lists_are_not_reported() {
        assert_eq!(UnusedWords::of(&Settings::default()), Ok(UnusedWords::default()));
    }
}
