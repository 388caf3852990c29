//! Articles in the layouts that site builders make.

/// Sizes of the rows of an article, in sentences.
pub const ROW_SIZES: [[usize; 6]; 3] = [[4, 4, 4, 4, 4, 4], [8, 2, 4, 2, 6, 2], [2, 3, 9, 3, 2, 4]];

/// A sentence like no other.
#[must_use]
pub fn sentence(seed: usize) -> String {
    const SYLLABLES: [&str; 32] = [
        "ba", "cor", "den", "fi", "gal", "hem", "in", "jo", "kel", "lo", "mar", "nes", "or", "pi", "qua", "rus", "sta",
        "ter", "ul", "ven", "wi", "xa", "yor", "zen", "bri", "cla", "dro", "fle", "gru", "shi", "tho", "ple",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut words: Vec<String> = Vec::new();
    for _ in 0..16 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let syllables = [8, 16, 24, 32].map(|shift| SYLLABLES[(state >> shift) % SYLLABLES.len()]);
        words.push(syllables[..2 + state % 3].concat());
    }
    format!("The {}.", words.join(" "))
}

/// The text of a row: `size` sentences.
#[must_use]
pub fn row(seed: usize, size: usize) -> Vec<String> {
    (0..size).map(|at| sentence(seed * 100 + at)).collect()
}

/// The text of a row in HTML.
#[must_use]
pub fn paragraphs(row: &[String]) -> String {
    row.chunks(2).map(|pair| format!("<p>{}</p>", pair.join(" "))).collect::<Vec<_>>().concat()
}

/// What is around a row of the article, by its number.
pub type Layout = fn(usize, &str) -> String;

/// The layouts, by name.
#[must_use]
pub fn layouts() -> Vec<(&'static str, Layout)> {
    vec![
        ("Tailwind", |_, text| {
            format!(
                "<div class='flex flex-wrap -mx-4'><div class='w-full px-4'><div class='prose'>{text}</div></div></div>"
            )
        }),
        ("Tailwind sections", |at, text| {
            let shade = ["bg-white", "bg-gray-50"][at % 2];
            format!(
                "<section class='py-12 {shade}'><div class='container mx-auto'><div class='max-w-2xl'>{text}</div></div></section>"
            )
        }),
        ("Bootstrap", |_, text| {
            format!(
                "<div class='row'><div class='col-md-4'><img src=a.jpg></div><div class='col-md-8'>{text}</div></div>"
            )
        }),
        ("WPBakery", |_, text| {
            format!(
                "<div class='vc_row wpb_row'><div class='wpb_column vc_column_container'><div class='vc_column-inner'>\
                     <div class='wpb_wrapper'><div class='wpb_text_column wpb_content_element'><div class='wpb_wrapper'>{text}\
                     </div></div></div></div></div></div>"
            )
        }),
        ("Elementor", |_, text| {
            format!(
                "<section class='elementor-section elementor-top-section'><div class='elementor-container'>\
                     <div class='elementor-column elementor-col-100'><div class='elementor-widget-wrap'>\
                     <div class='elementor-element elementor-widget elementor-widget-text-editor'>\
                     <div class='elementor-widget-container'>{text}</div></div></div></div></div></section>"
            )
        }),
        ("Divi", |at, text| {
            format!(
                "<div class='et_pb_section et_pb_section_{at}'><div class='et_pb_row'><div class='et_pb_column et_pb_column_4_4'>\
                     <div class='et_pb_module et_pb_text'><div class='et_pb_text_inner'>{text}</div></div></div></div></div>"
            )
        }),
        ("Gutenberg columns", |_, text| {
            format!(
                "<div class='wp-block-columns'><div class='wp-block-column'>{text}</div>\
                     <div class='wp-block-column'><figure class='wp-block-image'><img src=a.jpg></figure></div></div>"
            )
        }),
        ("AEM", |_, text| {
            format!(
                "<div class='responsivegrid aem-GridColumn'><div class='aem-Grid'><div class='text parbase'>\
                     <div class='cmp-text'>{text}</div></div></div></div>"
            )
        }),
        ("Wix", |at, text| {
            format!(
                "<section id='comp-{at}' class='wixui-section'><div data-testid=columns><div class='wixui-column-strip__column'>\
                     <div class='wixui-rich-text' data-testid=richTextElement>{text}</div></div></div></section>"
            )
        }),
        ("Squarespace", |_, text| {
            format!(
                "<div class='sqs-row row'><div class='col sqs-col-12 span-12'><div class='sqs-block html-block sqs-block-html'>\
                     <div class='sqs-block-content'><div class='sqs-html-content'>{text}</div></div></div></div></div>"
            )
        }),
        ("Webflow", |_, text| {
            format!(
                "<div class='section'><div class='w-container'><div class='w-layout-grid'><div class='w-richtext'>{text}</div></div></div></div>"
            )
        }),
        ("Notion", |_, text| {
            format!(
                "<div class='column-list'><div style='width:50%' class='column'>{text}</div><div style='width:50%' class='column'>\
                     <figure class=image><img src=a.png></figure></div></div>"
            )
        }),
        ("div in div", |_, text| format!("<div><div>{text}</div></div>")),
        ("a table for the layout", |_, text| {
            format!("<table><tr><td><img src=a.gif></td><td>{text}</td></tr></table>")
        }),
        ("posts", |_, text| {
            format!("<article class='post hentry'><h2>A post</h2><div class='entry-content'>{text}</div></article>")
        }),
    ]
}

/// A page of a site, whose name is in its menu and its footer, with an article of these rows.
#[must_use]
pub fn page(site: &str, around: Layout, rows: &[Vec<String>]) -> String {
    let item = |at| format!("<li><a href=/{at}>Section {at} of {site}</a></li>");
    let menu = (0..24).map(item).collect::<Vec<_>>().concat();
    let rows: String = rows.iter().enumerate().map(|(at, row)| around(at, &paragraphs(row))).collect();
    format!(
        "<html><head><title>Harbour works | Example</title></head><body><header><nav><ul>{menu}</ul></nav></header>\
         <main><h1>Harbour works</h1>{rows}</main><footer><p><a href=/s>Sports and games</a> <a href=/w>Weather \
         tomorrow</a> All rights are reserved by the owner of {site}, and nothing of it may be copied.</p></footer>\
         </body></html>"
    )
}
