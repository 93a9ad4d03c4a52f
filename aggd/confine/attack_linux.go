//go:build takeover

package confine

import "hutch/aggd/confine/takeover"

func init() { attack = takeover.Run }
