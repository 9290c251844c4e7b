//! Rows as files for other programs: CSV and Parquet, with the same columns.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use hostftl_sim::Row;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::columns::{Column, Get, columns};

/// Writes `rows` to `path` as CSV with a line of names; what a row does not have is empty.
///
/// # Errors
/// When the file can't be written.
pub fn csv(rows: &[Row], path: &Path) -> anyhow::Result<()> {
    let columns = columns();
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let mut text = line(columns.iter().map(|column| quoted(&column.name)).collect());
    for row in rows {
        text += &line(columns.iter().map(|column| cell(column, row)).collect());
    }
    save(path, text.as_bytes())
}

fn cell(column: &Column, row: &Row) -> String {
    let number = |value: Option<String>| value.unwrap_or_default();
    match &column.get {
        Get::Text(get) => quoted(get(row)),
        Get::Flag(get) => get(row).to_string(),
        Get::Whole(get) => number(get(row).map(|value| value.to_string())),
        Get::Real(get) => number(get(row).map(|value| value.to_string())),
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Writes `rows` to `path` as one row group of Parquet, uncompressed; counts are signed 64 bits.
///
/// # Errors
/// When the file can't be written.
pub fn parquet(rows: &[Row], path: &Path) -> anyhow::Result<()> {
    save(path, &encoded(rows).context("can't make Parquet of the rows")?)
}

fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("{}: can't write the rows", path.display()))
}

fn encoded(rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let columns = columns();
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?);
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties()))?;
    let mut group = file.next_row_group()?;
    for column in &columns {
        match &column.get {
            Get::Text(get) => {
                let values = rows.iter().map(|row| Some(ByteArray::from(get(row))));
                write::<ByteArrayType>(&mut group, values, false)?;
            }
            Get::Flag(get) => {
                write::<BoolType>(&mut group, rows.iter().map(|row| Some(get(row))), false)?;
            }
            Get::Whole(get) => {
                let values = rows.iter().map(|row| get(row).map(|value| value as i64));
                write::<Int64Type>(&mut group, values, true)?;
            }
            Get::Real(get) => write::<DoubleType>(&mut group, rows.iter().map(get), true)?,
        }
    }
    group.close()?;
    file.into_inner()
}

fn properties() -> WriterProperties {
    let name = format!("hostftl {}", env!("CARGO_PKG_VERSION"));
    WriterProperties::builder().set_created_by(name).build()
}

fn field(column: &Column) -> Result<TypePtr, ParquetError> {
    let (physical, repetition, logical) = match column.get {
        Get::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, Some(LogicalType::String)),
        Get::Flag(_) => (Physical::BOOLEAN, Repetition::REQUIRED, None),
        Get::Whole(_) => (Physical::INT64, Repetition::OPTIONAL, None),
        Get::Real(_) => (Physical::DOUBLE, Repetition::OPTIONAL, None),
    };
    let field = Type::primitive_type_builder(&column.name, physical);
    Ok(Arc::new(field.with_repetition(repetition).with_logical_type(logical).build()?))
}

/// Writes the next column; what is missing shows in the levels of an `optional` one.
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
