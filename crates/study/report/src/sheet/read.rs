//! Reader of sheets that were written as Parquet.

use parquet::basic::Type as Physical;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::{Sheet, Values};

impl Sheet {
    /// Parses a sheet from Parquet.
    ///
    /// # Errors
    /// When `bytes` are not Parquet, or not in the form that a sheet writes.
    pub fn of_parquet(bytes: Vec<u8>) -> Result<Self, ParquetError> {
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let mut sheet = Sheet::new();
        for column in schema.columns() {
            let values = match column.physical_type() {
                Physical::BYTE_ARRAY => Values::Texts(Vec::new()),
                Physical::BOOLEAN => Values::Flags(Vec::new()),
                Physical::INT64 => Values::Wholes(Vec::new()),
                Physical::DOUBLE => Values::Reals(Vec::new()),
                other => return Err(wrong(column.name(), &other.to_string())),
            };
            sheet.column(column.name(), values);
        }
        for group in 0..file.num_row_groups() {
            let group = file.get_row_group(group)?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            for (index, (name, values)) in sheet.columns.iter_mut().enumerate() {
                let optional = schema.column(index).max_def_level() > 0;
                let reader = group.get_column_reader(index)?;
                match values {
                    Values::Texts(all) => {
                        for value in column::<ByteArrayType>(reader, rows, optional)? {
                            all.push(text(name, value)?);
                        }
                    }
                    Values::Flags(all) => {
                        let read = column::<BoolType>(reader, rows, optional)?;
                        all.extend(read.into_iter().map(Option::unwrap_or_default));
                    }
                    Values::Wholes(all) => {
                        let read = column::<Int64Type>(reader, rows, optional)?;
                        all.extend(read.into_iter().map(|it| it.map(|value| value as u64)));
                    }
                    Values::Reals(all) => all.extend(column::<DoubleType>(reader, rows, optional)?),
                }
            }
        }
        Ok(sheet)
    }
}

fn wrong(name: &str, why: &str) -> ParquetError {
    ParquetError::General(format!("column {name}: {why}"))
}

fn text(name: &str, value: Option<ByteArray>) -> Result<String, ParquetError> {
    let value = value.unwrap_or_default();
    let text = value.as_utf8().map_err(|_| wrong(name, "no text in UTF-8"))?;
    Ok(text.to_owned())
}

/// Reads the values of a column, one for each of `rows` rows.
fn column<T: DataType>(
    reader: parquet::column::reader::ColumnReader,
    rows: usize,
    optional: bool,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let mut reader = get_typed_column_reader::<T>(reader);
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    while if optional { levels.len() } else { values.len() } < rows {
        let left = rows - if optional { levels.len() } else { values.len() };
        let (read, ..) =
            reader.read_records(left, optional.then_some(&mut levels), None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::EOF("a column has fewer values than rows".to_owned()));
        }
    }
    let mut values = values.into_iter();
    let each = (0..rows).map(|row| if optional && levels[row] == 0 { None } else { values.next() });
    Ok(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_sheets_read_back() {
        let mut sheet = Sheet::new();
        sheet.column("name", Values::Texts(vec!["hard".into(), "ü, \"x\"".into(), String::new()]));
        sheet.column("whole", Values::Flags(vec![true, false, true]));
        sheet.column("count", Values::Wholes(vec![Some(7), None, Some(u64::MAX)]));
        sheet.column("figure", Values::Reals(vec![None, Some(0.1 + 0.2), Some(1e300)]));
        sheet.column("nothing", Values::Reals(vec![None; 3]));
        let bytes = sheet.parquet("test").expect("it fits together");
        assert_eq!(Sheet::of_parquet(bytes.clone()).expect("it is Parquet"), sheet);
        for length in [0, 4, 12, bytes.len() / 2, bytes.len() - 1] {
            assert!(Sheet::of_parquet(bytes[..length].to_vec()).is_err(), "{length}");
        }
    }
}
