//! Avro values in their binary encoding, written as JSON by the schema that they were encoded with.
//!
//! The registry has checked the schema, so only what reading needs is read of it. Values are untrusted: nothing is
//! allocated for a length before the bytes are there, and depth and length of the JSON bound the work. (The reader of
//! `apache-avro` recurses as deep as the value says, makes room for what a length claims, and takes the end of a value for
//! null.)
//!
//! A union is written as the value that it holds. Times are numbers, whose size shows their unit; dates and local times are
//! texts in ISO 8601, since their numbers would be taken for others.

use std::collections::HashMap;

use jiff::civil::{Date, DateTime};
use jiff::{Span, Timestamp};
use serde_json::Value;

use super::json_text::{JsonText, Unfit, Wire, text};
use super::schema_id::{SchemaId, SchemaText};

/// Types refer to each other by their place, since a record may hold itself.
type Place = usize;

/// A schema, ready to read values.
#[derive(Debug)]
pub(super) struct Schema {
    types: Vec<Type>,
    root: Place,
}

#[derive(Clone, Debug, PartialEq)]
enum Type {
    Null,
    Boolean,
    Int,
    Date,
    Long,
    /// A time without a zone, in parts of a second of this number.
    Local(i64),
    Float,
    Double,
    Bytes(Meaning),
    String,
    Fixed(usize, Meaning),
    Enum(Vec<String>),
    Array(Place),
    Map(Place),
    Union(Vec<Place>),
    Record(Vec<(String, Place)>),
}

/// What bytes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Bytes,
    Uuid,
    /// A number with so many digits after the point.
    Decimal(usize),
}

impl Schema {
    /// Reads a schema after those that it refers to.
    pub(super) fn parse(text: &str, references: &[SchemaText]) -> Result<Self, String> {
        let mut parser = Parser::default();
        for SchemaText { name, text } in references {
            parser.parse(text).map_err(|why| format!("its reference {name}: {why}"))?;
        }
        let root = parser.parse(text)?;
        Ok(Self { types: parser.types, root })
    }

    /// Writes a value as JSON.
    pub(super) fn write(&self, value: &[u8], json: &mut JsonText) -> Result<(), Unfit> {
        if self.types.get(self.root) == Some(&Type::Bytes(Meaning::Bytes)) {
            // Serializers write a value that is nothing but bytes without their number.
            return json.bytes(value);
        }
        let mut reader = Wire { rest: value };
        reader.value(self, self.root, json)?;
        match reader.rest.len() {
            0 => Ok(()),
            left => Err(Unfit::damaged(format!("{left} of {} bytes are left over", value.len()))),
        }
    }
}

#[derive(Default)]
struct Parser {
    types: Vec<Type>,
    /// By full name.
    named: HashMap<String, Place>,
}

impl Parser {
    fn parse(&mut self, text: &str) -> Result<Place, String> {
        // Older serializers register the bare name of a primitive type.
        let schema = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.trim()));
        self.schema(&schema, "")
    }

    fn add(&mut self, new: Type) -> Place {
        self.types.push(new);
        self.types.len() - 1
    }

    fn schema(&mut self, schema: &Value, namespace: &str) -> Result<Place, String> {
        match schema {
            Value::String(name) => self.of_name(name, schema, namespace),
            Value::Array(branches) => {
                let branches =
                    branches.iter().map(|branch| self.schema(branch, namespace)).collect::<Result<_, _>>()?;
                Ok(self.add(Type::Union(branches)))
            }
            Value::Object(members) => match members.get("type") {
                Some(Value::String(name)) => self.of_name(name, schema, namespace),
                Some(inner) => self.schema(inner, namespace),
                None => Err("a schema in it has no type".to_owned()),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => Err(format!("{schema} is no Avro schema")),
        }
    }

    fn of_name(&mut self, name: &str, schema: &Value, namespace: &str) -> Result<Place, String> {
        let logical = schema.get("logicalType").and_then(Value::as_str);
        let scale = || schema.get("scale").and_then(Value::as_u64).and_then(|scale| usize::try_from(scale).ok());
        let meaning = match logical {
            Some("decimal") => Meaning::Decimal(scale().unwrap_or(0)),
            Some("uuid") => Meaning::Uuid,
            Some(_) | None => Meaning::Bytes,
        };
        let items = |key: &str| schema.get(key).ok_or_else(|| format!("{name} without {key}"));
        let new = match (name, logical) {
            ("null", _) => Type::Null,
            ("boolean", _) => Type::Boolean,
            ("int", Some("date")) => Type::Date,
            ("int", _) => Type::Int,
            ("long", Some("local-timestamp-millis")) => Type::Local(1_000),
            ("long", Some("local-timestamp-micros")) => Type::Local(1_000_000),
            ("long", Some("local-timestamp-nanos")) => Type::Local(1_000_000_000),
            ("long", _) => Type::Long,
            ("float", _) => Type::Float,
            ("double", _) => Type::Double,
            ("bytes", _) => Type::Bytes(meaning),
            ("string", _) => Type::String,
            ("array", _) => Type::Array(self.schema(items("items")?, namespace)?),
            ("map", _) => Type::Map(self.schema(items("values")?, namespace)?),
            ("fixed", _) => {
                let size = schema.get("size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
                let new = Type::Fixed(size.ok_or("fixed without size")?, meaning);
                return self.define(new, schema, namespace).map(|(place, _)| place);
            }
            ("enum", _) => {
                let symbols = items("symbols")?.as_array().into_iter().flatten();
                let symbols = symbols.map(|symbol| symbol.as_str().unwrap_or_default().to_owned()).collect();
                return self.define(Type::Enum(symbols), schema, namespace).map(|(place, _)| place);
            }
            ("record" | "error", _) => return self.record(schema, namespace),
            _ => {
                let full =
                    if name.contains('.') || namespace.is_empty() { name } else { &format!("{namespace}.{name}") };
                let known = self.named.get(full).or_else(|| self.named.get(name));
                return known.copied().ok_or_else(|| format!("the type {full} is not defined"));
            }
        };
        Ok(self.add(new))
    }

    fn record(&mut self, schema: &Value, namespace: &str) -> Result<Place, String> {
        // Its fields may refer to it.
        let (place, namespace) = self.define(Type::Record(Vec::new()), schema, namespace)?;
        let mut fields = Vec::new();
        for field in schema.get("fields").and_then(Value::as_array).into_iter().flatten() {
            let name = field.get("name").and_then(Value::as_str).ok_or("a field without a name")?;
            let of = field.get("type").ok_or_else(|| format!("the field {name} has no type"))?;
            // Some writers put the logical type beside the type, not inside.
            let of = if of.is_string() && field.get("logicalType").is_some() { field } else { of };
            fields.push((name.to_owned(), self.schema(of, &namespace)?));
        }
        if let Some(known) = self.types.get_mut(place) {
            *known = Type::Record(fields);
        }
        Ok(place)
    }

    /// Adds a named type, and returns its place and namespace.
    fn define(&mut self, new: Type, schema: &Value, namespace: &str) -> Result<(Place, String), String> {
        let name = schema.get("name").and_then(Value::as_str).ok_or("a named type without a name")?;
        let (namespace, short) = name
            .rsplit_once('.')
            .unwrap_or_else(|| (schema.get("namespace").and_then(Value::as_str).unwrap_or(namespace), name));
        let full = if namespace.is_empty() { short.to_owned() } else { format!("{namespace}.{short}") };
        let place = self.add(new);
        self.named.insert(full, place);
        Ok((place, namespace.to_owned()))
    }
}

impl<'r> Wire<'r> {
    fn int(&mut self) -> Result<i32, Unfit> {
        let number = self.zigzag()?;
        i32::try_from(number).map_err(|_| Unfit::damaged(format!("{number} is out of the range of int")))
    }

    /// Takes as many bytes as the number before them says.
    fn sized(&mut self) -> Result<&'r [u8], Unfit> {
        let length = self.zigzag()?;
        self.take_as_said(length)
    }

    fn string(&mut self) -> Result<&'r str, Unfit> {
        self.sized().and_then(text)
    }

    /// Calls `item` for each item of an array or map.
    fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), Unfit>) -> Result<(), Unfit> {
        loop {
            let mut count = self.zigzag()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // The size of the block follows, for readers that skip it.
                self.zigzag()?;
                count = count.checked_neg().ok_or_else(|| Unfit::damaged("a block has too many items"))?;
            }
            for _ in 0..count {
                item(self)?;
            }
        }
    }

    fn value(&mut self, schema: &Schema, place: Place, json: &mut JsonText) -> Result<(), Unfit> {
        let Some(of) = schema.types.get(place) else { return Err(Unfit::damaged("a type that is not defined")) };
        match of {
            Type::Null => json.plain("null"),
            Type::Boolean => match self.array()? {
                [0] => json.plain("false"),
                [1] => json.plain("true"),
                [byte] => Err(Unfit::damaged(format!("{byte} is no boolean"))),
            },
            Type::Int => json.plain(&self.int()?.to_string()),
            Type::Long => json.plain(&self.zigzag()?.to_string()),
            Type::Date => {
                let days = self.int()?;
                let date = Span::new().try_days(days).and_then(|days| Date::constant(1970, 1, 1).checked_add(days));
                json.string(&date.map_err(|_| Unfit::damaged(format!("{days} days are no date")))?.to_string())
            }
            Type::Local(parts) => {
                let number = self.zigzag()?;
                json.string(&local(number, *parts).ok_or_else(|| Unfit::damaged("a time out of range"))?.to_string())
            }
            Type::Float => json.float(f32::from_le_bytes(self.array()?).into()),
            Type::Double => json.float(f64::from_le_bytes(self.array()?)),
            Type::String => json.string(self.string()?),
            Type::Bytes(meaning) => write_bytes(self.sized()?, *meaning, json),
            Type::Fixed(size, meaning) => write_bytes(self.take(*size)?, *meaning, json),
            Type::Enum(symbols) => {
                let number = self.int()?;
                let symbol = usize::try_from(number).ok().and_then(|number| symbols.get(number));
                json.string(symbol.ok_or_else(|| no_choice(number.into(), symbols.len(), "symbols"))?)
            }
            Type::Union(branches) => {
                let number = self.zigzag()?;
                let branch = usize::try_from(number).ok().and_then(|number| branches.get(number));
                self.value(schema, *branch.ok_or_else(|| no_choice(number, branches.len(), "branches"))?, json)
            }
            Type::Array(items) => json.list(|json| self.blocks(|reader| reader.value(schema, *items, json))),
            Type::Map(values) => json.object(|json| {
                self.blocks(|reader| {
                    let name = reader.string()?;
                    json.member(name, |json| reader.value(schema, *values, json))
                })
            }),
            Type::Record(fields) => json.object(|json| {
                fields.iter().try_for_each(|(name, of)| json.member(name, |json| self.value(schema, *of, json)))
            }),
        }
    }
}

fn no_choice(number: i64, of: usize, what: &str) -> Unfit {
    Unfit::damaged(format!("number {number} of {of} {what}"))
}

fn local(number: i64, parts_of_second: i64) -> Option<DateTime> {
    let nanoseconds = i128::from(number) * i128::from(1_000_000_000 / parts_of_second);
    Timestamp::from_nanosecond(nanoseconds).ok().map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).datetime())
}

fn write_bytes(bytes: &[u8], meaning: Meaning, json: &mut JsonText) -> Result<(), Unfit> {
    match meaning {
        Meaning::Bytes => json.bytes(bytes),
        Meaning::Uuid => match <[u8; 16]>::try_from(bytes) {
            Ok(uuid) => json.string(&SchemaId::Guid(uuid).to_string()),
            Err(_) => json.bytes(bytes),
        },
        Meaning::Decimal(scale) => match decimal(bytes, scale) {
            Some(number) => json.plain(&number),
            None => json.bytes(bytes),
        },
    }
}

/// Writes a big-endian number of up to 16 bytes with `scale` digits after the point.
fn decimal(bytes: &[u8], scale: usize) -> Option<String> {
    let is_negative = *bytes.first()? >= 0x80;
    let mut wide = [if is_negative { 0xff } else { 0 }; 16];
    wide.get_mut(16_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    let number = i128::from_be_bytes(wide);
    let sign = if is_negative { "-" } else { "" };
    if scale == 0 {
        return Some(number.to_string());
    }
    if scale > 64 {
        return None;
    }
    let digits = format!("{:0>1$}", number.unsigned_abs(), scale + 1);
    let (whole, part) = digits.split_at_checked(digits.len() - scale)?;
    Some(format!("{sign}{whole}.{part}"))
}
