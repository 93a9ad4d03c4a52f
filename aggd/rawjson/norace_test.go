//go:build !race

package rawjson

const raced = false
