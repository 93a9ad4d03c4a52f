package tree

// failed is told every error that a client gets from a row.
func failed(a at, err error) {
	a.s.err.Set(err)
	a.s.errors.Add(1)
	if a.vm != nil {
		a.vm.LastErr.Set(err)
	}
}

func rootErr(c call) (string, error) { return c.At.s.err.Text(), nil }

func vmErr(c call) (string, error) { return c.At.vm.ErrText(), nil }
