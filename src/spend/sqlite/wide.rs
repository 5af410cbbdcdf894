//! Sums in columns: 128 bits, of which SQLite's integers have 64.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Result, Row};

/// A sum as a column has it: an integer where it fits, its decimal digits where not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum(pub(super) i128);

impl ToSql for Sum {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        let value = i64::try_from(self.0).map_or_else(|_| Value::Text(self.0.to_string()), Value::Integer);
        Ok(ToSqlOutput::Owned(value))
    }
}

impl FromSql for Sum {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Integer(number) => Ok(Self(number.into())),
            // Only as it is written: a sum has one form.
            ValueRef::Text(_) => match value.as_str()?.parse::<i128>() {
                Ok(sum) if i64::try_from(sum).is_err() && sum.to_string() == value.as_str()? => Ok(Self(sum)),
                _ => Err(FromSqlError::InvalidType),
            },
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// What was used of a limit: never below 0. More than 64 bits is as much as they have: no limit is as high.
pub(super) fn used(row: &Row<'_>, column: usize) -> Result<u64> {
    let Sum(used) = row.get(column)?;
    match used {
        0.. => Ok(u64::try_from(used).unwrap_or(u64::MAX)),
        _ => Err(rusqlite::Error::IntegralValueOutOfRange(column, i64::try_from(used).unwrap_or(i64::MIN))),
    }
}

/// The bytes of a sum in a digest: eight where they do, so that what was digested when sums had no more stays as it is.
pub(super) fn bytes(sum: i128) -> impl Iterator<Item = u8> {
    let (short, long) = match i64::try_from(sum) {
        Ok(short) if short != i64::MIN => (short, None),
        _ => (i64::MIN, Some(sum.to_le_bytes())),
    };
    short.to_le_bytes().into_iter().chain(long.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rusqlite::Connection;

    fn sums() -> impl Strategy<Value = i128> {
        let edges = [0, 1, -1, i64::MAX.into(), i64::MIN.into(), i128::MAX, i128::MIN];
        let near = (prop::sample::select(edges.to_vec()), -2..=2i128);
        prop_oneof![
            any::<i128>(),
            any::<i64>().prop_map_into(),
            near.prop_map(|(edge, by)| edge.saturating_add(by))
        ]
    }

    proptest! {
        #[test]
        fn a_column_gives_back_any_sum(sum in sums()) {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch("CREATE TABLE t (a ANY NOT NULL) STRICT").unwrap();
            connection.execute("INSERT INTO t (a) VALUES (?1)", [Sum(sum)]).unwrap();
            prop_assert_eq!(connection.query_row("SELECT a FROM t", [], |row| row.get(0)), Ok(Sum(sum)));
        }

        #[test]
        fn lists_of_sums_with_the_same_bytes_are_the_same(one in proptest::collection::vec(sums(), 0..4), other in proptest::collection::vec(sums(), 0..4)) {
            let bytes = |list: &[i128]| list.iter().flat_map(|&sum| bytes(sum)).collect::<Vec<_>>();
            prop_assert_eq!(bytes(&one) == bytes(&other), one == other);
        }
    }

    #[test]
    fn a_sum_in_another_form_is_none() {
        let connection = Connection::open_in_memory().unwrap();
        let read = |sql: &str| connection.query_row(&format!("SELECT {sql}"), [], |row| row.get::<_, Sum>(0));
        assert_eq!(read("'9223372036854775808'"), Ok(Sum(1 << 63)));
        for form in
            ["'7'", "'09223372036854775808'", "'+9223372036854775808'", "''", "'x'", "7.0", "x'07'", "NULL"]
        {
            assert!(read(form).is_err(), "{form}");
        }
    }

    #[test]
    fn what_marks_a_long_sum_is_no_short_one() {
        let long: i128 = (1 << 70) + 5;
        let halves = [long as i64, (long >> 64) as i64].map(i128::from);
        let list = [i64::MIN.into(), halves[0], halves[1]];
        assert!(bytes(long).ne(list.into_iter().flat_map(bytes)));
    }
}
