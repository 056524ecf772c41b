//! Limits of a field: the values that it may have beyond its type.
//!
//! Besides this crate, the build script of `api` reads tables by this file, so it stands on the standard library alone.

/// The values that a field may have beyond its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `min=N`: the smallest number.
    pub min: Option<i64>,
    /// `max=N`: the largest number.
    pub max: Option<i64>,
    /// How a number beyond the limits is refused.
    pub words: Words,
    /// `present`: the field must be there.
    pub present: bool,
    /// `filled`: the text must not be empty.
    pub filled: bool,
    /// `bytes=N`: the length of a text, or of JSON in its shortest form.
    pub bytes: Option<usize>,
    /// `items=N`: the length of a list.
    pub items: Option<usize>,
    /// `enum(A,B)`: the texts. An empty text is one that is absent.
    pub values: Vec<String>,
    /// `ratchet`: an update may keep a value that is not known here, for a newer server may know more.
    pub ratchet: bool,
    /// `format(name)`: what kind of name a text is.
    pub format: Option<Format>,
    /// `needs(field=Value)`: the field may only be set while another one of the same object has this value.
    pub needs: Option<Companion>,
    /// `requiredWith(field=Value)`: the field must be set while another one of the same object has this value.
    pub required_with: Option<Companion>,
}

/// How a number beyond its limits is refused: clients know each of these texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Words {
    /// By the limit that it exceeds.
    #[default]
    Bound,
    /// `range(MIN,MAX)`: by both limits.
    Range,
    /// `positive`: as one that is not greater than zero.
    Positive,
}

/// The kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `label-name`: the key of a label or a taint.
    LabelName,
    /// `label-value`: the value of a label or a taint, may be empty.
    LabelValue,
    /// `qualified-name`: an identifier after a domain and a slash.
    QualifiedName,
    /// `subdomain`: a DNS subdomain that must not be empty.
    Subdomain,
    /// `dns-label`: a DNS label.
    DnsLabel,
    /// `node-name`: a node.
    NodeName,
    /// `driver`: a driver that publishes slices.
    Driver,
    /// `any-driver`: a driver, whether it can publish slices or not.
    AnyDriver,
    /// `pool`: a pool, which must be named.
    Pool,
    /// `any-pool`: a pool.
    AnyPool,
}

impl Format {
    fn read(name: &str) -> Option<Self> {
        match name {
            "label-name" => Some(Self::LabelName),
            "label-value" => Some(Self::LabelValue),
            "qualified-name" => Some(Self::QualifiedName),
            "subdomain" => Some(Self::Subdomain),
            "dns-label" => Some(Self::DnsLabel),
            "node-name" => Some(Self::NodeName),
            "driver" => Some(Self::Driver),
            "any-driver" => Some(Self::AnyDriver),
            "pool" => Some(Self::Pool),
            "any-pool" => Some(Self::AnyPool),
            _ => None,
        }
    }
}

/// A field of the same object, and the text that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    /// The field.
    pub field: String,
    /// Its value.
    pub value: String,
}

impl Limits {
    /// Takes in one flag of a table; `None` if it is no limit.
    pub fn take(&mut self, flag: &str) -> Option<()> {
        match flag {
            "ratchet" => self.ratchet = true,
            "present" => self.present = true,
            "filled" => self.filled = true,
            "positive" => (self.min, self.words) = (Some(1), Words::Positive),
            _ => return self.take_value(flag),
        }
        Some(())
    }

    fn take_value(&mut self, flag: &str) -> Option<()> {
        let (name, value) = match flag.split_once('(') {
            Some((name, value)) => (name, value.strip_suffix(')')?),
            None => flag.split_once('=')?,
        };
        match name {
            "min" => self.min = Some(value.parse().ok()?),
            "max" => self.max = Some(value.parse().ok()?),
            "range" => {
                let (min, max) = value.split_once(',')?;
                (self.min, self.max) = (Some(min.parse().ok()?), Some(max.parse().ok()?));
                self.words = Words::Range;
            }
            "bytes" => self.bytes = Some(value.parse().ok()?),
            "items" => self.items = Some(value.parse().ok()?),
            "enum" => self.values = value.split(',').map(str::to_owned).collect(),
            "format" => self.format = Some(Format::read(value)?),
            "needs" => self.needs = Some(Companion::read(value)?),
            "requiredWith" => self.required_with = Some(Companion::read(value)?),
            _ => return None,
        }
        Some(())
    }

    /// Whether a number is outside of the limits.
    #[must_use]
    pub fn is_exceeded_by(&self, number: i64) -> bool {
        self.min.is_some_and(|min| number < min) || self.max.is_some_and(|max| number > max)
    }
}

impl Companion {
    fn read(text: &str) -> Option<Self> {
        let (field, value) = text.split_once('=')?;
        Some(Self { field: field.to_owned(), value: value.to_owned() })
    }
}
