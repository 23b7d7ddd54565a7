def write(results, page):
    pass
