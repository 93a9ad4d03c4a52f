// Package errno turns error numbers of this system into those of Linux, which
// 9P2000.L carries, and back.
package errno
