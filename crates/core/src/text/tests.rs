//! From bodies to words.

use super::normalize::{Normalizer, ascii_digit, is_arabic, is_filler, is_joiner, is_optional, look_alike};
use super::*;
use crate::record::{Body, Reject};
use proptest::prelude::*;

fn normal(change: impl FnOnce(&mut Normalize), text: &str) -> String {
    let mut settings = Normalize::default();
    change(&mut settings);
    let mut out = String::from("left over");
    Normalizer::new(settings).unwrap().run(text, &mut out);
    out
}

fn analyzer(change: impl FnOnce(&mut Settings)) -> Analyzer {
    let mut settings = Settings::default();
    change(&mut settings);
    Analyzer::new(&settings).unwrap()
}

fn words(analyzer: &Analyzer, text: &str) -> Vec<String> {
    let (mut buffer, mut words) = (String::new(), Vec::new());
    let normal = analyzer.normalize(&Body::Text(text.into()), &mut buffer).unwrap();
    analyzer.words(normal.text, |word| words.push(word.text.to_owned()));
    words
}

fn html(analyzer: &Analyzer, html: &str) -> Result<String, Reject> {
    let mut buffer = String::new();
    let normal = analyzer.normalize(&Body::Html(html.into()), &mut buffer);
    normal.map(|normal| normal.text.to_owned()).map_err(|rejection| rejection.reason())
}

#[test]
fn normalisation_makes_equal_what_reads_equal() {
    for (text, expected) in [
        ("  Ａ\u{3000}\r\n B\t", "a b"),
        ("Ｈｅｌｌｏ，世界！", "hello,世界!"),
        ("e\u{301}A\u{30a}", "éå"),
        ("Ａ\u{30a}", "å"),
        ("㎏ ﬁn ①", "kg fin 1"),
        ("ｶﾞ", "ガ"),
        ("ΣΑΣ", "σασ"),
        ("don’t", "don't"),
        ("據瞭解，漢語", "据了解,汉语"),
        ("\u{feff}a\u{200b}b\u{0}\u{ad}", "ab"),
        ("ABC 12 34", "abc 12 34"),
        ("", ""),
        (" \n ", ""),
    ] {
        assert_eq!(normal(|_| {}, text), expected, "{text:?}");
    }
}

#[test]
fn decimal_digits_of_all_scripts_are_one() {
    for text in [
        "٠١٢٣٤٥٦٧٨٩",
        "۰۱۲۳۴۵۶۷۸۹",
        "०१२३४५६७८९",
        "০১২৩৪৫৬৭৮৯",
        "๐๑๒๓๔๕๖๗๘๙",
        "០១២៣៤៥៦៧៨៩",
        "０１２３４５６７８９",
        "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗",
    ] {
        assert_eq!(normal(|_| {}, text), "0123456789", "{text}");
    }
    assert_eq!(normal(|settings| settings.digits = Digits::Mask, "٥٠٠ دينار"), "0 دينار");
    assert_eq!(normal(|settings| settings.unicode = UnicodeForm::None, "٥"), "٥");
    // Letters and numerals beside the digits stay.
    assert_eq!(normal(|_| {}, "๏๚ ௰ ፩ 三"), "๏๚ ௰ ፩ 三");
}

#[test]
fn marks_that_a_writer_may_leave_out_do_not_count() {
    for (text, expected) in [
        ("مُحَمَّدٌ كِتَـــابٌ", "محمد كتاب"),
        // Hamza makes another letter only of waw and yeh, however it is written.
        ("أ ا\u{654} آ ا\u{653} ئ ي\u{654} ؤ", "ا ا ا ا ئ ئ ؤ"),
        ("ا\u{64e}\u{654}", "ا"),
        ("שָׁלוֹם \u{fb2a}ל\u{5be}א", "שלום של\u{5be}א"),
        ("The\u{3164}lamp\u{ffa0}of\u{115f}\u{1160}Skerry", "the lamp of skerry"),
        // The marks of other scripts are part of their letters.
        ("ที่นี่ हिन्दी e\u{301} x\u{301}", "ที่นี่ हिन्दी é x\u{301}"),
    ] {
        assert_eq!(normal(|_| {}, text), expected, "{text:?}");
    }
    assert_eq!(normal(|settings| settings.unicode = UnicodeForm::None, "كِـ"), "كِـ");
}

/// The same text from another keyboard: the letters are those that search engines take for one.
#[test]
fn arabic_letters_that_look_the_same_are_one() {
    for (one, other) in [
        ("شهرداری اعلام کرد که پل", "شهرداري اعلام كرد كه پل"),
        ("بلدیہ نے اعلان کیا ہے", "بلديه نے اعلان كيا هے"),
        ("کۆنەکەی سەر ڕووبارەکە", "كۆنه\u{200c}كه\u{200c}ي سه\u{200c}ر ڕووباره\u{200c}كه\u{200c}"),
        ("هەرێم", "ھەرێم"),
        ("إلى المدينة الأولى", "الي المدينه الاولي"),
        ("می\u{200c}شود خانه\u{200c}ها", "ميشود خانهها"),
        ("ٱلله ڪتاب خانۀ", "الله كتاب خانه"),
        ("كِتَـــابٌ\u{200d}", "كتاب"),
    ] {
        assert_eq!(normal(|_| {}, one), normal(|_| {}, other), "{one}");
    }
    // Letters that look different stay, and so do the joiners of other scripts.
    for text in ["ئ ؤ ے ێ ۆ ڵ ڕ پ چ ژ گ ٹ ڈ", "क्\u{200d}ष", "👩\u{200d}👧", "a \u{200c}b"] {
        assert_eq!(normal(|_| {}, text), text, "{text}");
    }
    assert_eq!(normal(|settings| settings.unicode = UnicodeForm::None, "کی"), "کی");
}

#[test]
fn letters_that_look_the_same_are_one() {
    for (one, other) in [
        ("Știri și țară", "Ştiri şi ţară"),
        ("oʻzbek maʼnosi", "o\u{2018}zbek ma\u{2019}nosi"),
        ("oʻzbek", "o'zbek"),
        ("lǝzzǝt", "ləzzət"),
        ("അവൻ അവൾ കാർ ആൺ പാൽ", "അവന്\u{200d} അവള്\u{200d} കാര്\u{200d} ആണ്\u{200d} പാല്\u{200d}"),
    ] {
        assert_eq!(normal(|_| {}, one), normal(|_| {}, other), "{one}");
    }
    assert_eq!(normal(|settings| settings.unicode = UnicodeForm::None, "știri"), "știri");
}

#[test]
fn every_step_of_normalisation_can_be_left_out() {
    assert_eq!(normal(|settings| settings.unicode = UnicodeForm::None, "Ａ１，ﬁ漢"), "ａ１，ﬁ汉");
    assert_eq!(normal(|settings| settings.lowercase = false, "Aé É"), "Aé É");
    assert_eq!(normal(|settings| settings.han = Han::Keep, "據瞭解"), "據瞭解");
    assert_eq!(normal(|settings| settings.digits = Digits::Mask, "a12b 3 45,６７ 8x9"), "a0b 0 0,0 0x0");
    assert_eq!(normal(|settings| settings.urls = Urls::Keep, "见 HTTP://a.b/C"), "见 http://a.b/c");
}

#[test]
fn web_addresses_are_taken_out_and_the_sentence_around_them_stays() {
    for (text, expected) in [
        ("see https://a.b/c?d=e#f, then", "see , then"),
        ("见http://a.b/c，以及", "见 ,以及"),
        ("(www.example.com) and WWW.X.Y.", "( ) and ."),
        ("xhttp://a.b", "xhttp://a.b"),
        ("http:// www. http", "http:// www. http"),
        ("\"http://a.b\"", "\" \""),
    ] {
        let sentence = "The rest of this sentence is longer than all addresses before it.";
        let found = normal(|_| {}, &format!("{text} {sentence}"));
        assert_eq!(found, format!("{expected} {}", sentence.to_lowercase()), "{text:?}");
    }
}

/// A list of links, a bibliography and a post that shares a link differ in their addresses alone.
#[test]
fn web_addresses_count_in_a_text_of_little_else() {
    let urls = |text: &str| {
        let mut out = String::new();
        (Normalizer::new(Normalize::default()).unwrap().run(text, &mut out), out)
    };
    let (caption, text) = urls("New post: https://blog.example/A");
    assert!(caption.kept);
    assert_eq!(text, "new post: https://blog.example/a");
    assert_eq!(urls("https://a.example").1, "https://a.example");
    let sentence = "x".repeat(64);
    let (dropped, text) = urls(&format!("{sentence} https://a.example"));
    assert_eq!((dropped.kept, &text), (false, &sentence));
    assert!(urls(&format!("{} https://a.example", &sentence[1..])).0.kept, "a caption");
    assert!(urls(&format!("{sentence} https://a.example/{sentence}")).0.kept, "more than the rest");
    assert_ne!(dropped.hash, urls(&format!("{sentence} https://b.example")).0.hash);
    assert_eq!(urls(&sentence).0, TextUrls::default());
}

#[test]
fn stop_words_of_both_languages_and_of_a_list_are_filtered() {
    let text = "The cat and 我们 的 机器人 don’t 發現 SPARKLES，這個 Zebra";
    assert_eq!(words(&analyzer(|_| {}), text), ["cat", "机器人", "发现", "sparkles", "zebra"]);
    let list = StopWords::List("# mine\n發現\n\nCAT zebra\n".to_owned());
    let own = analyzer(|settings| settings.stopwords = vec![list, StopWords::Zh]);
    assert_eq!(words(&own, text), ["the", "and", "机器人", "don't", "sparkles"]);
}

#[test]
fn a_user_dictionary_joins_its_words() {
    let text = "云计算石墨烯电池";
    assert!(!words(&analyzer(|_| {}), text).contains(&"石墨烯电池".to_owned()));
    let own = analyzer(|settings| settings.jieba.user_dict = Some("石墨烯電池 100000 n\n\n云计算\n".to_owned()));
    assert_eq!(words(&own, text), ["云计算", "石墨烯电池"]);
    let mut settings = Settings::default();
    settings.jieba.user_dict = Some("好\n石墨烯 many".to_owned());
    let error = Analyzer::new(&settings).unwrap_err();
    assert_eq!(error, SettingsError::UserDict { line: 2, frequency: "many".to_owned() });
}

#[test]
fn text_past_the_limit_is_left_unread_at_a_character() {
    let analyzer = analyzer(|settings| settings.max_bytes = 7);
    let mut buffer = String::new();
    let cut = analyzer.normalize(&Body::Text("天安门前".into()), &mut buffer).unwrap();
    assert_eq!((cut.text, cut.cut), ("天安", true));
    let (cut, rest) = (cut.cut, cut.rest);
    let other = analyzer.normalize(&Body::Text("天安门后".into()), &mut buffer).unwrap();
    assert!(cut && other.cut && other.rest != rest, "what is not read tells texts apart");
    let whole = analyzer.normalize(&Body::Text("天安x".into()), &mut buffer).unwrap();
    assert_eq!((whole.text, whole.cut, whole.rest), ("天安x", false, 0));
}

#[test]
fn choices_of_a_form_are_no_text() {
    let options = "<option>a country</option>".repeat(200);
    let page = format!("<p>An account <select>{options}</select><datalist>{options}</datalist> is free.");
    assert_eq!(html(&analyzer(|_| {}), &page).unwrap(), "an account is free.");
}

#[test]
fn a_page_without_text_is_refused() {
    let analyzer = analyzer(|_| {});
    for text in ["", " \n\u{3000}", "\u{200b}\u{0}"] {
        let mut buffer = String::new();
        let rejection = analyzer.normalize(&Body::Text(text.into()), &mut buffer).unwrap_err();
        assert_eq!(rejection.reason(), Reject::NoText, "{text:?}");
    }
    for page in ["", "<html></html>", "<script>var x = 1;</script><style>p{}</style>", "<!-- note -->"] {
        assert_eq!(html(&analyzer, page), Err(Reject::NoText), "{page:?}");
    }
}

#[test]
fn main_text_leaves_navigation_out_and_short_pages_are_read_whole() {
    let paragraph = "<p>The committee has published its report on the harbour, and the mayor said that, \
                     after years of delay, the works would begin in the spring of next year.</p>";
    let links = "<a href=/x>Sports</a> <a href=/y>Weather</a>".repeat(5);
    let page = format!(
        "<html><head><title>t</title></head><body><nav>{links}</nav><article>{}</article></body></html>",
        paragraph.repeat(6)
    );
    let main = html(&analyzer(|_| {}), &page).unwrap();
    assert!(main.contains("committee") && !main.contains("weather"), "{main}");
    let all = html(&analyzer(|settings| settings.html = HtmlText::AllText), &page).unwrap();
    assert!(all.contains("committee") && all.contains("weather"), "{all}");
    let text = paragraph.repeat(2);
    for without in
        [format!("<footer>{text}</footer>"), format!("<p>x</p><div role=dialog aria-modal=true>{text}</div>")]
    {
        let found = html(&analyzer(|_| {}), &format!("<body>{without}</body>")).unwrap();
        assert!(found.contains("committee"), "no article, or hardly one: all visible text counts");
    }
    assert_eq!(html(&analyzer(|_| {}), "<div>a<b>b</b><p>c<br>d</div><td>e<script>f</script>").unwrap(), "ab c d e");
}

#[test]
fn html_past_the_nesting_limit_is_read_without_a_tree() {
    let analyzer = analyzer(|_| {});
    let nested = |levels: usize| format!("{}text{}", "<div>".repeat(levels), "</div>".repeat(levels));
    for levels in [1, 200, 512] {
        assert_eq!(extracted(&analyzer, &nested(levels)), ("text".to_owned(), Extraction::AllFallback), "{levels}");
    }
    for levels in [513, 100_000] {
        let stripped = ("text".to_owned(), Extraction::Stripped);
        assert_eq!(extracted(&analyzer, &nested(levels)), stripped, "{levels}");
        assert_eq!(extracted(&analyzer, &format!("{}text", "<b><i>".repeat(levels))), stripped, "{levels}");
        assert_eq!(html(&analyzer, &"<b><i>".repeat(levels)), Err(Reject::NoText), "{levels}");
    }
    let long = format!("<article>{}<p>{}</article>", "<div>".repeat(500), "plain words, in a row. ".repeat(100));
    assert!(html(&analyzer, &long).unwrap().starts_with("plain words"));
    // Ends that are where a browser does not see them.
    let hidden = format!("text{}", "<div><script><!--<script></script></div></script>".repeat(3_000));
    assert_eq!(extracted(&analyzer, &hidden), ("text".to_owned(), Extraction::Stripped));
}

/// Returns the text of a page and what was taken out.
fn extracted(analyzer: &Analyzer, page: &str) -> (String, Extraction) {
    let mut buffer = String::new();
    let normal = analyzer.normalize(&Body::Html(page.into()), &mut buffer).unwrap();
    (normal.text.to_owned(), normal.extraction)
}

#[test]
fn pages_whose_tree_would_be_too_large_are_stripped_of_their_tags() {
    let analyzer = analyzer(|_| {});
    let many = |count: usize, one: fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().concat();
    let attributes = many(2000, |number| format!(" a{number}=1"));
    let slashes = many(2000, |number| format!("/a{number}"));
    // Each `<p>` opens all of these again.
    let fonts = many(400, |size| format!("<font size={size}>"));
    let hidden = many(20_000, |number| format!(" a{number}"));
    for page in [
        "<br>word ".repeat(60_000),
        "<p>word ".repeat(100_001),
        format!("<img{attributes}>word"),
        format!("<img{slashes}>word"),
        format!("<p>{fonts}{}", "<p>word".repeat(1000)),
        // The pass before the parser takes it for text, the parser for a tag.
        format!("<frameset><title><b{hidden}>a</title></frameset>word"),
    ] {
        let (text, extraction) = extracted(&analyzer, &page);
        assert_eq!(extraction, Extraction::Stripped, "{}", &page[..60.min(page.len())]);
        assert!(text.contains("word"), "{}", &text[..60.min(text.len())]);
    }
    for page in ["<br>word ".repeat(40_000), format!("<p title=x>{}", "<b>word</b> ".repeat(10_000))] {
        assert_eq!(extracted(&analyzer, &page).1, Extraction::Main);
    }
    // The parser does not see attributes that say nothing about the text.
    for page in [format!("<div{attributes}>word"), format!("<div{slashes}>word")] {
        assert_eq!(extracted(&analyzer, &page).1, Extraction::AllFallback);
    }
}

/// What the text does not need of a page is cut before the parser sees it.
#[test]
fn a_long_attribute_or_comment_does_not_change_what_the_article_is() {
    let analyzer = analyzer(|_| {});
    let json = "{&quot;key&quot;:&quot;a \\/ value's text&quot;},".repeat(4_000);
    let (quotes, blanks, data) = ("'".repeat(40_000), " \n/".repeat(20_000), "iVBORw0KGgo/ ".repeat(20_000));
    let menu = "<li><a href=/x>Sports and weather of the week</a></li>".repeat(30);
    let page =
        |token: &str| format!("<body>{token}<ul>{menu}</ul><article><p>{TERMS}</p><p>{TERMS}</p></article></body>");
    let expected = extracted(&analyzer, &page(""));
    assert_eq!(expected.1, Extraction::Main);
    for token in [
        format!("<div id=data-preloaded data-preloaded=\"{json}\"></div>"),
        format!("<div data-page='{}'></div>", json.replace('\'', "")),
        format!("<img alt='' src='data:image/png;base64,{data}'>"),
        format!("<img srcset=\"{}\">", "/a.jpg 1x, ".repeat(20_000)),
        format!("<svg><path d=\"{}\"/></svg>", "M 1 2 L 3 4 ".repeat(20_000)),
        format!("<div onclick=\"{quotes}\"></div>"),
        format!("<div {blanks}></div>"),
        format!("<!-- {json} {quotes} -->"),
        format!("<!note {blanks}>"),
        format!("<?note {quotes}>"),
        format!("<div></div{blanks}>"),
        format!("<svg><![CDATA[{data}]]></svg>"),
    ] {
        assert_eq!(extracted(&analyzer, &page(&token)), expected, "{}", &token[..40]);
    }
}

#[test]
fn text_for_browsers_without_scripts_counts_where_the_page_has_no_other() {
    let analyzer = analyzer(|_| {});
    let text = format!("<p>{TERMS}</p><p>{TERMS}</p>");
    let own =
        format!("<main>{}</main>", "<p>The committee has published its report on the harbour works.</p>".repeat(40));
    let asks = "<p>Please enable JavaScript, because this application needs it; without it nothing of the page is shown to \
                you. How that is done is told on the pages of your browser.</p>";
    for (page, is_shown) in [
        (format!("<body><noscript>{text}</noscript></body>"), true),
        (format!("<body><div>Loading</div><noscript>{text}</noscript></body>"), true),
        (format!("<body><x-page><template shadowrootmode=open>{text}</template></x-page></body>"), true),
        (
            format!(
                "<body><x-page><template shadowrootmode=open><p>a</p><template><p>b</p></template>{text}</template></body>"
            ),
            true,
        ),
        (format!("<body><div>Loading</div><NoScript>{text}</NOSCRIPT></body>"), true),
        (
            format!("<body>{}<x-a><template shadowrootmode=open><p>{TERMS}</p></template></x-a></body>", &own[6..400]),
            true,
        ),
        (format!("<body><x-page><TEMPLATE ShadowRootMode=closed>{text}</TEMPLATE></x-page></body>"), true),
        (format!("<body><x-page><template shadowroot=open>{text}</template></x-page></body>"), true),
        (format!("<body>{own}<noscript>{text}</noscript></body>"), false),
        (format!("<body><p>a</p><template>{text}</template></body>"), false),
        (format!("<body><p>a</p><script>'<noscript>{text}</noscript>'</script></body>"), false),
    ] {
        let (found, _) = extracted(&analyzer, &page);
        assert_eq!(found.contains("representations or warranties"), is_shown, "{}", &page[..40]);
    }
    assert_eq!(html(&analyzer, &format!("<body><div></div><noscript>{asks}</noscript>")), Err(Reject::NoText));
    let links = "<a href=/x>A page of this site with its title</a>".repeat(20);
    assert_eq!(html(&analyzer, &format!("<body><noscript>{links}</noscript>")), Err(Reject::NoText), "a menu");
}

#[test]
fn a_page_without_a_tree_has_the_text_of_its_noscript_and_its_title() {
    let analyzer = analyzer(|_| {});
    let deep = |inside: &str| format!("<title>Topic 7</title>{}{inside}", "<div>".repeat(5_000));
    let posts = format!("<noscript><p>{TERMS}</p></noscript>");
    for (page, is_shown) in [
        (deep(&format!("Loading...{posts}")), true),
        (format!("<title>Topic 7</title><p>Loading...</p><noscript>{}{TERMS}</noscript>", "<div>".repeat(5_000)), true),
        (deep(&format!("<x-a><template shadowrootmode=open>{TERMS}</template></x-a>")), true),
        (deep(&format!("<p>{}</p>{posts}", "The committee has published its report. ".repeat(60))), false),
    ] {
        let (found, how) = extracted(&analyzer, &page);
        assert_eq!((how, found.contains("representations or warranties")), (Extraction::Stripped, is_shown), "{found}");
    }
    let (found, how) = extracted(&analyzer, &deep("Loading..."));
    assert_eq!(how, Extraction::Stripped);
    assert!(found.contains("loading") && found.contains("topic 7"), "{found}");
}

/// One start tag created 190 elements of 1,000 attributes each, hundreds of times before anything was counted, and each
/// `<body>` compared its attributes with all before.
#[test]
fn attributes_that_multiply_are_bounded() {
    let analyzer = analyzer(|_| {});
    let attributes = |of: usize| (0..1000).map(|number| format!(" a{of}x{number}")).collect::<Vec<_>>().concat();
    let tags = |name: &str, count: usize| {
        (0..count).map(|of| format!("<{name}{}>", attributes(of))).collect::<Vec<_>>().concat()
    };
    let bodies = format!("<p>{}{}", "word ".repeat(200), tags("body", 190));
    assert_ne!(extracted(&analyzer, &bodies).1, Extraction::Stripped);
    for fonts in [40, 190] {
        // Signs that are no tags allow a larger tree.
        let page = format!("<p>{}{}{}", tags("font", fonts), "<p>word".repeat(3_000), "<".repeat(12_000));
        let (text, extraction) = extracted(&analyzer, &page);
        assert_eq!(extraction, Extraction::Stripped, "{fonts}");
        assert!(text.starts_with("word"), "{fonts}");
    }
}

#[test]
fn notices_beside_the_article_are_not_taken_for_it() {
    let notice = "We value your privacy. We and our partners store and access information on a device, such as cookies, \
                  and process personal data for personalised content. You may accept or manage your choices at any time.";
    let sentence = "The committee has published its report on the harbour, the works begin in spring. ";
    let story = (0..30).map(|number| format!("{number} {sentence}<br>")).collect::<Vec<_>>().concat();
    let own = analyzer(|_| {});
    let banner = format!("<article><p>{notice}</p><p>{notice}</p></article>");
    let (text, extraction) = extracted(&own, &format!("<body><footer>{story}</footer>{banner}</body>"));
    assert_eq!(extraction, Extraction::AllFallback);
    assert!(text.contains("29 the committee"), "{text}");
    // An article as short that is a small part of a page of links stays alone.
    let links = "<li><a href=/x>Sports and weather of the week</a></li>".repeat(60);
    let article = format!("<p>{}</p>", sentence.repeat(2)).repeat(2);
    let (text, extraction) = extracted(&own, &format!("<body><ul>{links}</ul><article>{article}</article></body>"));
    assert_eq!(extraction, Extraction::Main);
    assert!(text.contains("committee") && !text.contains("weather"), "{text}");
}

/// Portals have much running text beside a short article: teasers, comments, disclaimers.
#[test]
fn a_short_article_that_the_title_announces_stays_alone() {
    let own = analyzer(|_| {});
    let teasers = (0..80).map(|at| format!("<li>Teaser {at} of another page of this portal</li>")).collect::<Vec<_>>();
    let notes =
        (0..40).map(|at| format!("<div class=comment>Reader {at}: well said, I would add</div>")).collect::<Vec<_>>();
    let page = |title: &str, article: &str, beside: &[String]| {
        format!("<title>{title}</title><body><h1>H</h1><article>{article}</article><ul>{}</ul></body>", beside.concat())
    };
    let read = |title: &str, article: &str, beside: &[String]| extracted(&own, &page(title, article, beside)).1;
    let article = format!(
        "<p>The committee has published its report on the harbour. Dredging begins in spring, says the report, unless \
         the council objects to it, as it did last year.</p><p>{TERMS}</p>"
    );
    let form = format!(
        "<p>Leave a comment on Committee publishes harbour report. Your address will not be published, and the fields \
         that have to be filled in are marked.</p><p>{TERMS}</p>"
    );
    let title = "Committee publishes harbour report | The Portal";
    let other = "Committee opens a swimming bath at the station | The Portal";
    for beside in [&notes, &teasers] {
        assert_eq!(read(title, &article, beside), Extraction::Main, "{}", beside[0]);
        assert_eq!(read(other, &article, beside), Extraction::AllFallback, "{}", beside[0]);
        assert_eq!(read(title, &form, beside), Extraction::AllFallback, "{}", beside[0]);
    }
}

const TERMS: &str = "The information on this page is provided for general purposes only and does not constitute advice. \
    While we make every effort to keep it correct and up to date, we make no representations or warranties of any kind \
    about its completeness, accuracy or suitability. Any reliance you place on it is strictly at your own risk. In no \
    event will we be liable for any loss or damage, including indirect or consequential loss, arising from the use of \
    this page. Through this page you are able to follow links to other pages which are not under our control. We have no \
    influence on their nature, content and availability. The inclusion of links does not imply a recommendation or \
    endorse the views expressed within them.";

/// Lists, tables and preformatted text beside terms of use: the only paragraphs of the page are the terms.
#[test]
fn terms_of_use_are_not_taken_for_the_article() {
    let own = analyzer(|_| {});
    let facts: Vec<String> = (0..90).map(|at| format!("part {at} of the pump weighs {at} grams")).collect();
    let items = |tag: &str, facts: &[String]| {
        facts.iter().map(|fact| format!("<{tag}>{fact}</{tag}>")).collect::<Vec<_>>().concat()
    };
    let terms = format!("<p>{}</p><p>{}</p>", &TERMS[..300], &TERMS[300..]);
    for count in [30, 90] {
        let facts = &facts[..count];
        for content in [
            format!("<ul>{}</ul>", items("li", facts)),
            format!("<dl>{}</dl>", items("dd", facts)),
            format!("<table>{}</table>", items("td", facts).replace("<td>", "<tr><td>")),
            format!("<pre>{}</pre>", facts.join("\n")),
            format!("<blockquote>{}</blockquote>", facts.join("<br>")),
        ] {
            for frame in [("<footer>", "</footer>"), ("<div class=text>", "</div>")] {
                let page = format!("<body><main><h1>Pump</h1>{content}</main>{}{terms}{}</body>", frame.0, frame.1);
                let (text, _) = extracted(&own, &page);
                assert!(text.contains("part 17 of the pump"), "{count} {frame:?} {}: {text}", &content[..40]);
            }
        }
    }
    // A short text is told from a footer by its place.
    for content in ["<pre>The pump weighs 7 grams</pre>", "<ul><li>The pump weighs 7 grams</ul>"] {
        for footer in ["<footer>", "<div class=site-footer>", "<div id=footer>", "<section role=contentinfo>"] {
            let (text, _) = extracted(&own, &format!("<body><h1>Pump</h1>{content}{footer}{terms}</body>"));
            assert!(text.contains("weighs 7 grams"), "{footer}: {text}");
        }
    }
    // A table that is smaller than the article is left out.
    let story = format!("<article>{}</article>", format!("<p>{TERMS}</p>").repeat(2).replace("page", "harbour"));
    let table = format!("<table><tr><td>{}</table>", facts[..10].join("<td>"));
    let (text, extraction) = extracted(&own, &format!("<body>{story}{table}<footer>{terms}</footer></body>"));
    assert_eq!(extraction, Extraction::Main);
    assert!(text.contains("harbour") && !text.contains("the pump"), "{text}");
}

/// The library searches the rest of a text for each `&` and each no-break space of it.
#[test]
fn texts_that_take_long_to_escape_are_not_searched_for_the_article() {
    let own = analyzer(|_| {});
    let many_values = (0..1000).map(|at| format!(" a{at}='{}'", "&".repeat(1_000))).collect::<Vec<_>>().concat();
    for (page, expected) in [
        (format!("<p>word {}</p>", "& ".repeat(200_000)), Extraction::AllFallback),
        (format!("<p>word {}</p>", "a&nbsp;".repeat(200_000)), Extraction::AllFallback),
        (format!("<p title='{}'>{TERMS}</p>", "&".repeat(400_000)), Extraction::Main),
        (format!("<p {many_values}>{TERMS}</p>"), Extraction::Main),
        (format!("<table><td {many_values}>{TERMS}</table>"), Extraction::Stripped),
        (format!("<p>{TERMS} {}</p>", "R&D ".repeat(2_000)), Extraction::Main),
    ] {
        assert_eq!(extracted(&own, &page).1, expected, "{}", &page[..40]);
    }
}

/// A film, a gallery or a frame: the navigation is the longest text of the page, however long it is.
#[test]
fn navigation_is_not_taken_for_the_article() {
    let own = analyzer(|_| {});
    for links in [12, 60] {
        let link = |at| format!("<li><a href=/{at}>Section {at} of the paper</a></li>");
        let menu = (0..links).map(link).collect::<Vec<_>>().concat();
        for headline in ["The council votes on the bridge", "A film about the harbour"] {
            let main = format!("<main><h1>{headline}</h1><iframe src=/f></iframe></main>");
            let page =
                format!("<body><nav><ul>{menu}</ul></nav>{main}<footer><p>All rights reserved</p></footer></body>");
            let (text, extraction) = extracted(&own, &page);
            assert_eq!(extraction, Extraction::AllFallback, "{links}");
            assert!(text.contains(&headline.to_lowercase()), "{text}");
        }
    }
    // An article with many links stays one.
    let story =
        "<p>The <a href=/c>committee</a> has published its <a href=/r>report</a> on the harbour works.</p>".repeat(12);
    let (text, extraction) =
        extracted(&own, &format!("<body><article>{story}</article><footer>Imprint</footer></body>"));
    assert_eq!(extraction, Extraction::Main);
    assert!(text.contains("committee") && !text.contains("imprint"), "{text}");
}

/// The form is the longest text of a short post, and is equal on all sites of a platform.
#[test]
fn forms_for_comments_and_logins_are_no_part_of_the_article() {
    let own = analyzer(|_| {});
    let fields = "<p><span>Your email address will not be published.</span> <span>Required fields are marked *</span></p>\
                  <p><label>Name *</label><input></p><p><label>Save my name, email, and website in this browser for \
                  the next time I comment.</label></p>";
    let named = format!("<div id=respond class=comment-respond><h3>Leave a Reply</h3><form>{fields}</form></div>");
    let comment = format!("<div><form>{fields}<p><label>Comment *</label><textarea></textarea></p></form></div>");
    let login = format!("<div><form>{fields}<p><label>Secret *</label><input type=PASSWORD></p></form></div>");
    let sentence = "<p>The first tulips opened this morning beside the old shed, two weeks early.</p>";
    let page = |post: &str, form: &str| {
        let article = format!("<article><h1>First tulips</h1><div class=entry-content>{post}</div></article>");
        format!(
            "<body><header><a href=/>A garden</a></header><main>{article}<div id=comments>{form}</div></main></body>"
        )
    };
    for form in [&named, &comment, &login] {
        let (text, _) = extracted(&own, &page(sentence, form));
        assert!(text.contains("the first tulips opened"), "{form}: {text}");
        let (text, extraction) = extracted(&own, &page(&sentence.repeat(4), form));
        assert_eq!(extraction, Extraction::Main, "{form}");
        assert!(text.contains("opened") && !text.contains("email") && !text.contains("reply"), "{form}: {text}");
    }
    // Some frameworks put the whole page into one form.
    let whole = format!("<body><form><textarea></textarea>{}</form></body>", sentence.repeat(24));
    let (text, extraction) = extracted(&own, &whole);
    assert_eq!((extraction, text.matches("tulips").count()), (Extraction::Main, 24));
}

#[test]
fn readings_are_no_part_of_the_article() {
    let own = analyzer(|_| {});
    let article = |open: &str, reading: &str| {
        let sentence =
            format!("市{open}議会{reading}は今朝、港の改修についての報告書を公表し、工事は春に始まると述べた。");
        format!("<body><article><p>{}</p></article></body>", sentence.repeat(20))
    };
    let with = extracted(&own, &article("<ruby>", "<rp>(</rp><rt>ぎかい</rt><rp>)</rp></ruby>"));
    assert_eq!(with, extracted(&own, &article("", "")));
    assert_eq!(with.1, Extraction::Main);
}

/// Pages that a script fills in the browser show the same few words before it has run.
#[test]
fn the_title_counts_where_hardly_any_text_is_visible() {
    let page = |title: &str, body: &str| format!("<html><head>{title}</head><body>{body}</body></html>");
    let [one, other] = ["A cup", "A plate"].map(|name| format!("<title>{name} &amp; more</title>"));
    for html in [HtmlText::MainText, HtmlText::AllText] {
        let own = analyzer(|settings| settings.html = html);
        let text = |title: &str, body: &str| extracted(&own, &page(title, body)).0;
        assert_eq!(text(&one, "<div id=root>Loading</div>"), "loading a cup & more");
        assert_ne!(text(&one, "<p>Loading</p>"), text(&other, "<p>Loading</p>"));
        assert_eq!(text("", "<p>Loading</p>"), "loading");
        let enough = "x".repeat(120);
        assert_eq!(text(&one, &enough), enough, "120 bytes are text enough");
        assert_eq!(text(&one, &enough[1..]), format!("{} a cup & more", &enough[1..]));
    }
    let (analyzer, mut buffer) = (analyzer(|_| {}), String::new());
    let without_text = Body::Html(page(&one, "<div id=root></div>").into());
    let reject = analyzer.normalize(&without_text, &mut buffer).unwrap_err();
    assert_eq!(reject.reason(), Reject::NoText, "a title alone is no page");
}

#[test]
fn a_title_is_in_the_form_that_is_compared() {
    let titled =
        |title: &str| format!("<!doctype html><html><head><meta charset=utf-8>{title}</head><body>text</body>");
    let own = analyzer(|_| {});
    let title = |html: &str| own.title(&Body::Html(html.into()));
    for (written, expected) in [
        ("<title>Red Shoe, size 42 - The Shop</title>", "red shoe, size 42 - the shop"),
        ("<TITLE lang=en>\n  RED  shoe\u{a0}size \u{ff14}\u{ff12}: the shop </TITLE>", "red shoe size 42: the shop"),
        ("<title>(3) Inbox &ndash; 2026-03-05</title>", "(3) inbox – 2026-03-05"),
        ("<title>caf&eacute; &amp; b&#228;r</title>", "café & bär"),
        ("<title>Cafe\u{301}</title>", "café"),
        ("<title>繁體字 第2頁</title>", "繁体字 第2页"),
        ("<title>a <b>tag</b></title>", "a <b>tag</b>"),
        ("<title>first</title><title>second</title>", "first"),
        ("<title></title><title>the first with a text</title>", "the first with a text"),
        ("</head><body><img src=x><title>in the body</title>", "in the body"),
        ("<script>'<title>x</title>'</script><style></style><title>after a script</title>", "after a script"),
        (
            "<noscript><img src=x><title>y</title></noscript><template><title>z</title><p>a</p></template><title>t</title>",
            "t",
        ),
        ("<title>never closed", "never closed</head><body>text</body>"),
    ] {
        assert_eq!(title(&titled(written)).as_deref(), Some(expected), "{written}");
    }
    for written in ["", "<title></title>", "<title> \n </title>", "<title>12 / 2026 &nbsp; ...</title>"] {
        assert_eq!(title(&titled(written)), None, "{written}");
    }
    // What is in the body names a picture, not the page.
    for written in ["<svg><title>icon</title></svg>", "<p><svg><title>icon</title></svg>"] {
        assert_eq!(title(written), None, "{written}");
    }
    assert_eq!(title("<title>without a head</title><p>text").as_deref(), Some("without a head"));
    assert_eq!(own.title(&Body::Text("<title>x</title>".into())), None);
    let masked = analyzer(|settings| settings.normalize.digits = Digits::Mask);
    assert_eq!(masked.title(&Body::Html("<title>Page 2</title>".into())).as_deref(), Some("page 0"));
}

#[test]
fn the_title_of_a_site_is_completed_by_the_heading_of_the_page() {
    let title = |html: &str| analyzer(|_| ()).title(&Body::Html(html.into()));
    let page = |title: &str, body: &str| format!("<title>{title}</title><body>{body}<p>text");
    for (written, body, expected) in [
        ("The Shop", "<h1>Red Shoe</h1>", "the shop red shoe"),
        ("The Shop", "<h2>Red Shoe</h2>", "the shop"),
        ("The Shop", "<h1>Red Shoe</h1><h1>Blue Shoe</h1>", "the shop"),
        ("Red Shoe | The Shop", "<h1>The Red Shoe</h1>", "red shoe | the shop"),
        ("Red Shoe", "<h1><a href=/>The Store</a></h1>", "red shoe"),
        ("Print: The Shop", "<h1>Red Shoe</h1>", "the shop red shoe"),
    ] {
        assert_eq!(title(&page(written, body)).as_deref(), Some(expected), "{written}: {body}");
    }
    assert_eq!(title("<h1>Red Shoe</h1><p>text"), None);
}

#[test]
fn settings_that_would_hash_nothing_are_refused() {
    let refuse = |change: fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        Analyzer::new(&settings).unwrap_err()
    };
    assert_eq!(refuse(|settings| settings.min_features = 0), SettingsError::NoFeatures);
    assert_eq!(refuse(|settings| settings.max_bytes = 0), SettingsError::NoBytes);
}

/// Text of the kinds that take different ways through the normaliser.
fn any_text() -> impl Strategy<Value = String> {
    let kinds = prop_oneof![
        any::<char>().prop_map(String::from),
        "[a-zA-Z0-9 .,]{1,4}",
        "[\u{4e00}-\u{9fff}\u{3000}-\u{3030}\u{ff01}-\u{ff5e}\u{2010}-\u{2030}]{1,4}",
        "[\u{200c}\u{620}-\u{64a}\u{6a9}\u{6c0}-\u{6d5}]{1,3}",
        "[\u{5d0}\u{591}-\u{5c7}\u{620}-\u{670}\u{1160}\u{3164}]{1,3}",
        "[\u{300}-\u{310}\u{3099}\u{309a}\u{ff61}-\u{ff9f}\u{ac00}\u{1100}\u{1161}]{1,2}",
    ];
    prop::collection::vec(kinds, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    /// The oracle takes one step after the other, with the library alone.
    #[test]
    fn one_pass_gives_what_single_steps_give(text in any_text()) {
        use unicode_normalization::UnicodeNormalization;
        let invisible = |c: &char| {
            (c.is_control() && !c.is_whitespace())
                || matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{ad}')
        };
        let composed: String = text.nfkc().filter(|c| !invisible(c)).collect();
        let composed = composed.replace(['\u{2018}', '\u{2019}'], "'").replace(is_filler, " ").replace(is_optional, "");
        let composed: String = composed.chars().map(look_alike).map(ascii_digit).collect();
        let joined = composed.chars().fold(String::new(), |mut text, c| {
            if !(is_joiner(c) && text.chars().next_back().is_some_and(is_arabic)) {
                text.push(c);
            }
            text
        });
        let composed = joined;
        let lower: String = composed.chars().flat_map(char::to_lowercase).collect();
        let expected = lower.split_whitespace().collect::<Vec<_>>().join(" ");
        let found = normal(|settings| {
            settings.han = Han::Keep;
            settings.urls = Urls::Keep;
        }, &text);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_number_of_any_script_is_an_ascii_one(number in "\\p{Nd}{10}") {
        let found = normal(|_| {}, &number);
        prop_assert!(found.len() == 10 && found.bytes().all(|byte| byte.is_ascii_digit()), "{number:?} {found:?}");
    }

    /// Tree and scan agree on what is visible.
    #[test]
    fn stripping_tags_shows_what_a_tree_shows(parts in prop::collection::vec(0_usize..20, 0..30)) {
        let pieces = [
            "<div>", "</div>", "<p>", "</p>", "<b>", "</b>", "<br>", "word", " ", "a&amp;b", "&nbsp;", "字", "<!-- x -->",
            "<script>if (a<b) x();</script>", "<style>p{}</style>", "<svg><text>s</text></svg>", "<img alt='<p>'>",
            "<noscript>n</noscript>", "<template><p>t</p></template>", "<a href=\"x>y\">link</a>",
        ];
        // In a head an element that is hidden in the body may be none.
        let page: String = ["<body>x"].into_iter().chain(parts.iter().map(|part| pieces[*part])).collect();
        let (mut one, mut other) = (String::new(), String::new());
        let all = analyzer(|settings| settings.html = HtmlText::AllText);
        let tree = all.normalize(&Body::Html(page.as_str().into()), &mut one).map_or("", |normal| normal.text);
        let stripped = super::extract::stripped_text(&page, usize::MAX);
        let stripped = all.normalize(&Body::Text(stripped.into()), &mut other).map_or("", |normal| normal.text);
        // An end tag without a start ends a word here and none there.
        let without_spaces = |text: &str| text.replace(' ', "");
        prop_assert_eq!(without_spaces(stripped), without_spaces(tree));
    }

    #[test]
    fn a_page_that_is_minified_keeps_its_text(parts in prop::collection::vec(0_usize..20, 0..60)) {
        let known = [
            "<", ">", "</", "<!--", "-->", "<p", "<p class=", "<script>", "</script>", "<title>", "</title>", "\"", "'",
            "=", "\u{5b57}", " ", "/", "&", "a", "\n",
        ];
        let html: String = parts.iter().filter_map(|part| known.get(*part)).copied().collect();
        let text = |html: &str| -> String { super::extract::stripped_text(html, usize::MAX).split_whitespace().collect() };
        for has_indents in [false, true] {
            let limits = super::minify::Limits { max_nesting: 99, max_bytes: usize::MAX, has_indents };
            prop_assert_eq!(text(&super::minify::minified(&html, limits, false).html), text(&html), "{}", html);
        }
    }

    #[test]
    fn no_page_makes_reading_panic(text in any_text(), tags in prop::collection::vec(0_usize..12, 0..40)) {
        let pieces = ["<div>", "</div>", "<p", "<table><td>", "</b>", "<script>", "</", "<!--", "-->", "<svg/>", "\"", "&#x;"];
        let page: String = tags.iter().flat_map(|tag| [pieces[*tag], text.as_str()]).collect();
        let analyzer = analyzer(|_| {});
        let mut buffer = String::new();
        if let Ok(normal) = analyzer.normalize(&Body::Html(page.into()), &mut buffer) {
            analyzer.words(normal.text, |_| {});
        }
    }
}
