package fs

import "io/fs"

// UnixType has the type in a mode of Unix.
const UnixType = 0o170000

var unixTypes = [...]struct {
	unix uint32
	mode fs.FileMode
}{
	{0o040000, fs.ModeDir}, {0o100000, 0}, {0o120000, fs.ModeSymlink}, {0o010000, fs.ModeNamedPipe},
	{0o140000, fs.ModeSocket}, {0o020000, fs.ModeDevice | fs.ModeCharDevice}, {0o060000, fs.ModeDevice},
}

var unixBits = [...]struct {
	unix uint32
	mode fs.FileMode
}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}

// UnixMode returns the mode that stat(2) has for a file's. What has no type
// there is a regular file.
func UnixMode(mode fs.FileMode) uint32 {
	unix := uint32(0o100000)
	for _, t := range unixTypes {
		if mode.Type()&^fs.ModeIrregular == t.mode {
			unix = t.unix
		}
	}
	for _, b := range unixBits {
		if mode&b.mode != 0 {
			unix |= b.unix
		}
	}
	return unix | uint32(mode.Perm())
}

// FileMode returns a file's mode for that of Unix. A type that Unix has not, as
// none, is irregular.
func FileMode(unix uint32) fs.FileMode {
	mode := fs.ModeIrregular
	for _, t := range unixTypes {
		if unix&UnixType == t.unix {
			mode = t.mode
		}
	}
	return mode | Permissions(unix)
}

// Permissions returns the permissions in a mode of Unix.
func Permissions(unix uint32) fs.FileMode {
	mode := fs.FileMode(unix) & fs.ModePerm
	for _, b := range unixBits {
		if unix&b.unix != 0 {
			mode |= b.mode
		}
	}
	return mode
}
