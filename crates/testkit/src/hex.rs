//! Golden files: records as hexadecimal text.

/// Reads one record a paragraph; other white space has no meaning.
///
/// # Panics
///
/// When there are other characters between the digits of a byte.
#[must_use]
pub fn records(hex: &str) -> Vec<Vec<u8>> {
    hex.split("\n\n")
        .map(|paragraph| {
            let digits: Vec<u8> = paragraph.bytes().filter(u8::is_ascii_hexdigit).collect();
            digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
        })
        .collect()
}

/// Writes records so that [`records`] reads them.
#[must_use]
pub fn hex(records: &[Vec<u8>]) -> String {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let paragraph = |bytes: &Vec<u8>| bytes.chunks(32).map(digits).collect::<Vec<_>>().join("\n");
    records.iter().map(paragraph).collect::<Vec<_>>().join("\n\n")
}
