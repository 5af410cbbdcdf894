//! The parts of the `tollgate` tool. It is a library only so that tests and fuzz targets reach them: nothing here is
//! promised to anybody else.

pub mod args;
pub mod bench;
pub mod budget;
pub mod event;
pub mod explain;
pub mod failure;
pub mod policy;
pub mod replay;
pub mod summary;
pub mod table;
pub mod verify;
