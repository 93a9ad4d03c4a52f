//go:build cgo

package confine

// ownPIDs is no namespace where programs are built with cgo: Landlock is entered
// by libpsx there, which looks for the process's threads in a /proc that is not of
// the namespace, and does not end.
const ownPIDs = 0
