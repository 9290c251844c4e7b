//! Data for other programs: named columns of equal length, as CSV or Parquet.

mod read;

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

/// The values of a column, one for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Texts.
    Texts(Vec<String>),
    /// Booleans.
    Flags(Vec<bool>),
    /// Optional counts.
    Wholes(Vec<Option<u64>>),
    /// Optional measurements.
    Reals(Vec<Option<f64>>),
}

impl Values {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Texts(values) => values.len(),
            Values::Flags(values) => values.len(),
            Values::Wholes(values) => values.len(),
            Values::Reals(values) => values.len(),
        }
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an empty column of the same kind.
    #[must_use]
    pub fn none(&self) -> Self {
        match self {
            Values::Texts(_) => Values::Texts(Vec::new()),
            Values::Flags(_) => Values::Flags(Vec::new()),
            Values::Wholes(_) => Values::Wholes(Vec::new()),
            Values::Reals(_) => Values::Reals(Vec::new()),
        }
    }

    /// Appends empty values until the column has `length` values.
    pub fn fill(&mut self, length: usize) {
        match self {
            Values::Texts(values) => values.resize(length, String::new()),
            Values::Flags(values) => values.resize(length, false),
            Values::Wholes(values) => values.resize(length, None),
            Values::Reals(values) => values.resize(length, None),
        }
    }

    /// Appends the values of `other`. Returns false if they are of another kind.
    #[must_use]
    pub fn append(&mut self, other: Values) -> bool {
        match (self, other) {
            (Values::Texts(all), Values::Texts(more)) => all.extend(more),
            (Values::Flags(all), Values::Flags(more)) => all.extend(more),
            (Values::Wholes(all), Values::Wholes(more)) => all.extend(more),
            (Values::Reals(all), Values::Reals(more)) => all.extend(more),
            _ => return false,
        }
        true
    }
}

/// A table of named columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    columns: Vec<(String, Values)>,
}

impl Sheet {
    /// Makes a sheet without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a column.
    pub fn column(&mut self, name: impl Into<String>, values: Values) {
        self.columns.push((name.into(), values));
    }

    /// Returns all columns with their names, in order.
    pub fn into_columns(self) -> Vec<(String, Values)> {
        self.columns
    }

    /// Returns the sheet as CSV with a header. Missing values are empty.
    pub fn csv(&self) -> String {
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let mut text = line(self.columns.iter().map(|(name, _)| quoted(name)).collect());
        for row in 0..self.rows() {
            text += &line(self.columns.iter().map(|(_, values)| cell(values, row)).collect());
        }
        text
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }

    /// Returns the column `name`.
    pub fn get(&self, name: &str) -> Option<&Values> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, values)| values)
    }

    /// Returns the column `name`, for changes.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Values> {
        self.columns.iter_mut().find(|(known, _)| known == name).map(|(_, values)| values)
    }

    /// Returns all columns with their names, in order.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Values)> {
        self.columns.iter().map(|(name, values)| (name.as_str(), values))
    }

    /// Returns the sheet as uncompressed Parquet with one row group. Counts are signed 64-bit
    /// integers. `by` is the creator in the metadata.
    ///
    /// # Errors
    /// When the columns have different lengths.
    pub fn parquet(&self, by: &str) -> Result<Vec<u8>, ParquetError> {
        let fields = self.columns.iter().map(|(name, values)| field(name, values));
        let fields = fields.collect::<Result<_, _>>()?;
        let schema = Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?);
        let properties = WriterProperties::builder().set_created_by(by.to_owned()).build();
        let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for (_, values) in &self.columns {
            match values {
                Values::Texts(values) => {
                    let values = values.iter().map(|it| Some(ByteArray::from(it.as_str())));
                    write::<ByteArrayType>(&mut group, values, false)?;
                }
                Values::Flags(values) => {
                    write::<BoolType>(&mut group, values.iter().copied().map(Some), false)?;
                }
                Values::Wholes(values) => {
                    let values = values.iter().map(|it| it.map(|value| value as i64));
                    write::<Int64Type>(&mut group, values, true)?;
                }
                Values::Reals(values) => {
                    write::<DoubleType>(&mut group, values.iter().copied(), true)?;
                }
            }
        }
        group.close()?;
        file.into_inner()
    }
}

fn cell(values: &Values, row: usize) -> String {
    match values {
        Values::Texts(values) => quoted(&values[row]),
        Values::Flags(values) => values[row].to_string(),
        Values::Wholes(values) => values[row].map(|it| it.to_string()).unwrap_or_default(),
        Values::Reals(values) => values[row].map(|it| it.to_string()).unwrap_or_default(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn field(name: &str, values: &Values) -> Result<TypePtr, ParquetError> {
    let (physical, repetition, logical) = match values {
        Values::Texts(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, Some(LogicalType::String)),
        Values::Flags(_) => (Physical::BOOLEAN, Repetition::REQUIRED, None),
        Values::Wholes(_) => (Physical::INT64, Repetition::OPTIONAL, None),
        Values::Reals(_) => (Physical::DOUBLE, Repetition::OPTIONAL, None),
    };
    let field = Type::primitive_type_builder(name, physical);
    Ok(Arc::new(field.with_repetition(repetition).with_logical_type(logical).build()?))
}

/// Writes the next column. Missing values are encoded in the definition levels of an `optional`
/// column.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = Option<T::T>>,
    optional: bool,
) -> Result<(), ParquetError> {
    let values: Vec<Option<T::T>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    let present: Vec<T::T> = values.into_iter().flatten().collect();
    let mut column = group.next_column()?.expect("the schema has a column for each");
    column.typed::<T>().write_batch(&present, optional.then_some(&levels[..]), None)?;
    column.close()
}
