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
    /// `filled`: the text or the list must not be empty.
    pub filled: bool,
    /// `chars=N`: the length of a text in characters, as definitions count it.
    pub chars: Option<usize>,
    /// `bytes=N`: the length of a text, or of JSON in its shortest form.
    pub bytes: Option<usize>,
    /// `items=N`: the length of a list or a map.
    pub items: Option<usize>,
    /// `enum(A,B)`: the texts. An empty text is one that is absent.
    pub values: Vec<String>,
    /// `ratchet`: an update may keep a value that is not known here, for a newer server may know more.
    pub ratchet: bool,
    /// `format(name)`: what kind of name a text is.
    pub format: Option<Format>,
    /// `pattern(name)`: a definition has this expression, which the text matches.
    pub pattern: Option<&'static str>,
    /// `fixed`: in a definition, the value is the one with which the object was made.
    pub fixed: bool,
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

/// The expression of a pattern by its name. Definitions are checked by API servers that know nothing but expressions.
#[must_use]
pub fn pattern(name: &str) -> Option<&'static str> {
    match name {
        "attribute" => Some(
            r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z_][A-Za-z0-9_]{0,31}$",
        ),
        "duration" => Some(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"),
        "label-name" => Some("^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"),
        "label-value" => Some("^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"),
        "percentage" => Some("^(100|[1-9]?[0-9])%$"),
        "time-zone" => Some("^(UTC|[+-](0[0-9]|1[0-4]):[0-5][0-9]|[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*)$"),
        "window-duration" => Some("^[1-9][0-9]{0,5}[hms]([0-9]{1,4}[ms])?([0-9]{1,4}s)?$"),
        "window-start" => Some("^((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?([01][0-9]|2[0-3]):[0-5][0-9]$"),
        _ => None,
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
            "fixed" => self.fixed = true,
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
            "chars" => self.chars = Some(value.parse().ok()?),
            "bytes" => self.bytes = Some(value.parse().ok()?),
            "items" => self.items = Some(value.parse().ok()?),
            "enum" => self.values = value.split(',').map(str::to_owned).collect(),
            "format" => self.format = Some(Format::read(value)?),
            "pattern" => self.pattern = Some(pattern(value)?),
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
