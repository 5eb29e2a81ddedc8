"""What people look at beside reports: timelines, plots, flame graphs, listings, pages, exports."""
