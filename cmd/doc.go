// Package cmd has hutch's programs, a folder each. Its own are the tests of the
// whole: imports against the table of layers, manuals against the programs' flags
// and the tree, and the README's map against the files.
package cmd
