// Package cmd holds hutch's programs, a folder each, and tests of them all
// together: imports against the table of layers, manuals against flags and the
// tree, the README's map against the files.
package cmd
