package workload

import (
	"testing"
	"time"

	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
)

// A server whose config says so is not asked whether it is well.
func TestHealthCheck(t *testing.T) {
	for says, want := range map[string]time.Duration{`{}`: pingTime, `{"health_check":true}`: pingTime, `{"health_check":false}`: 0} {
		for _, source := range []string{`"image":"npx://a@1.0.0"`, `"remote_url":"https://a.example/mcp"`} {
			c, err := runconfig.Decode([]byte(`{` + source + `,"hutch":` + says + `}`))
			if err != nil {
				t.Fatal(err)
			}
			d, err := definition(c.Server(), permission.Terms{})
			if err != nil || time.Duration(d.Health) != want {
				t.Errorf("%s, %s: every %v, %v", source, says, time.Duration(d.Health), err)
			}
		}
	}
}
