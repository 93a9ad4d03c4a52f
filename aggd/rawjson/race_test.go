//go:build race

package rawjson

// raced says that the race detector is on, under which pools drop what they are given now and then.
const raced = true
